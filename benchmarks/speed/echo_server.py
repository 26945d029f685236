"""Echo servers for the benchmarks, with one tool, `echo`, which returns its text.

`echo_server.py sdk` runs the SDK's server on its stdio transport. `http PORT` and `http-json PORT` run the
same server on streamable HTTP, with SSE or JSON answers. `raw` answers JSON lines without an SDK, to
measure the cost of pipes and processes.
"""

import json
import os
import sys


def raw() -> None:
    with open(0, "rb", buffering=0) as source:
        unfinished = b""
        while chunk := source.read(1 << 16):
            *lines, unfinished = (unfinished + chunk).split(b"\n")
            answers = [answer(json.loads(line)) for line in lines]
            os.write(1, b"".join(json.dumps(one).encode() + b"\n" for one in answers if one))


def answer(message: dict) -> dict | None:  # type: ignore[type-arg]
    if "id" not in message:
        return None
    text = message.get("params", {}).get("arguments", {}).get("text", "")
    result = {"content": [{"type": "text", "text": text}]}
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


def sdk(mode: str, port: str = "0") -> None:
    import anyio
    from mcp.server.lowlevel.server import Server
    from mcp.server.stdio import stdio_server
    from mcp_types import CallToolResult, ListToolsResult, TextContent, Tool

    schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    listing = ListToolsResult(tools=[Tool(name="echo", description="Return the text.", input_schema=schema)])

    async def list_tools(ctx: object, params: object) -> ListToolsResult:
        return listing

    async def call_tool(ctx: object, params: object) -> CallToolResult:
        text = params.arguments["text"]  # type: ignore[attr-defined]
        return CallToolResult(content=[TextContent(type="text", text=text)])

    server = Server("echo", version="1", on_list_tools=list_tools, on_call_tool=call_tool)

    async def serve() -> None:
        async with stdio_server() as (source, sink):
            await server.run(source, sink, server.create_initialization_options())

    if mode == "sdk":
        anyio.run(serve)
    else:
        import uvicorn

        app = server.streamable_http_app(json_response=mode == "http-json")
        uvicorn.run(app, host="127.0.0.1", port=int(port), log_level="error", ws="none")


if __name__ == "__main__":
    mode = sys.argv[1]
    raw() if mode == "raw" else sdk(*sys.argv[1:])
