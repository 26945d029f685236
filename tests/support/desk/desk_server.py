"""A small MCP server, built with the SDK, for tests of clients: on stdio, or with `--http` on a free port.

It appends each call to the file $JOURNAL before the call runs. Tests check this file.
"""

import json
import os
import socket
import sys
from pathlib import Path
from typing import Literal

import anyio
from mcp.server import MCPServer

desk = MCPServer("desk")
both = anyio.Event()
waiting: list[str] = []


def journal(tool: str, /, **arguments: object) -> None:
    if path := os.environ.get("JOURNAL"):
        with Path(path).open("a") as file:
            file.write(json.dumps({"name": tool, "arguments": arguments}) + "\n")


@desk.tool()
def add(a: int, b: int) -> str:
    """Add two numbers."""
    journal("add", a=a, b=b)
    return str(a + b)


@desk.tool()
def note(text: str, colour: Literal["red", "blue"] = "red") -> str:
    """Write a note."""
    journal("note", text=text, colour=colour)
    return f"noted {text}"


@desk.tool()
async def meet(name: str) -> str:
    """Wait until two are here. Only calls that run at the same time come back."""
    journal("meet", name=name)
    waiting.append(name)
    if len(waiting) == 2:
        both.set()
    await both.wait()
    return f"{name} met {', '.join(other for other in waiting if other != name)}"


@desk.tool(name="desk.tidy")
def tidy() -> str:
    """Tidy up. Model APIs do not accept a name with a dot."""
    journal("desk.tidy")
    return "tidy"


@desk.tool()
def leave() -> str:
    """End the server in the middle of a call."""
    journal("leave")
    os._exit(3)


def submit_answer(answer: str) -> str:
    """Hand in the answer."""
    journal("submit_answer", answer=answer)
    return "taken"


def serve_http() -> None:
    import uvicorn

    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        app = desk.streamable_http_app()
        uvicorn.Server(uvicorn.Config(app, log_config=None, ws="none")).run(sockets=[listener])


if __name__ == "__main__":
    if os.environ.get("ANSWERS"):
        desk.tool()(submit_answer)
    if "--http" in sys.argv:
        serve_http()
    else:
        desk.run("stdio")
