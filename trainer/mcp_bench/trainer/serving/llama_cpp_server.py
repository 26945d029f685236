"""Serve a GGUF file with llama.cpp's server. Every request must show the key, whatever its path.

Run as `python -m mcp_bench.trainer.serving.llama_cpp_server FILE HOST PORT MODEL TOKENS [NAME=VALUE ...]`, in
a folder of the user's own.

llama.cpp's own listener leaves paths open without a key (`/health`). It gets a socket in that folder, which
nobody else can enter, and a key that nobody knows. Requests reach llama.cpp through the application below.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from mcp_bench.trainer.serving.require_key import RequireKey

SLOTS = 4
"""Conversations that are generated at the same time; further ones wait."""
Complete = Callable[..., Any]
"""xllamacpp's `Server.handle_chat_completions`: takes a request, and a function for the parts of a stream."""


def start(file: Path, tokens: int, settings: list[str]) -> Any:
    """Load the model and return xllamacpp's server.

    Greedy unless a request has a temperature, as our other engines. `settings` change llama.cpp's parameters.

    Raises:
        SystemExit: a parameter is unknown, or has a value of another type.
    """
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(file)
    params.n_ctx = tokens
    params.n_parallel = SLOTS
    params.kv_unified = True  # each conversation may use all tokens
    params.sampling.temp = 0.0
    for setting in settings:
        _set(params, setting)
    params.hostnames = ["llama.sock"]  # relative: a socket's path has at most 107 bytes
    params.api_keys = [secrets.token_urlsafe(32)]
    params.ui = False
    return xllamacpp.Server(params)


def _set(params: Any, setting: str) -> None:
    name, _, text = setting.partition("=")
    *parents, last = name.split(".")
    try:
        for parent in parents:
            params = getattr(params, parent)
        kind = type(getattr(params, last))
        setattr(params, last, text if kind is str else json.loads(text))
    except (AttributeError, TypeError, ValueError) as error:
        sys.exit(f"llama.cpp has no parameter {name!r} with a value like {text!r}: {error}")


def application(complete: Complete, model: str) -> Starlette:
    """Return the ASGI application: `/v1/models` and `/v1/chat/completions`.

    Args:
        complete: answers a request of OpenAI's API, or passes the parts of the answer to its second argument.
        model: model name for clients.
    """
    started = int(time.time())

    async def models(request: Request) -> Response:
        entry = {"id": model, "object": "model", "created": started, "owned_by": "mcp-bench"}
        return JSONResponse({"object": "list", "data": [entry]})

    async def chat(request: Request) -> Response:
        try:
            asked = await request.json()
        except ValueError as error:
            return _refused(f"the body is not JSON: {error}", 400)
        if not isinstance(asked, dict):
            return _refused("the body is not a JSON object", 400)
        if asked.get("model") not in (None, model):
            return _refused(f"no model {asked['model']!r}: this server has {model!r}", 404)
        if asked.get("stream"):
            return StreamingResponse(_stream(complete, asked, model), media_type="text/event-stream")
        try:
            answer = await asyncio.to_thread(complete, asked)
        except ValueError as error:
            return _refused(str(error), 400)
        if "error" in answer:  # such as a prompt that is too long
            return JSONResponse(answer, int(answer["error"].get("code", 500)))
        return JSONResponse({**answer, "model": model})

    routes = [Route("/v1/models", models), Route("/v1/chat/completions", chat, methods=["POST"])]
    return Starlette(routes=routes)


async def _stream(complete: Complete, asked: dict[str, Any], model: str) -> AsyncIterator[str]:
    parts: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    gone = threading.Event()

    def pass_on(part: dict[str, Any]) -> bool:
        """Return whether llama.cpp stops."""
        loop.call_soon_threadsafe(parts.put_nowait, {**part, "model": model})
        return gone.is_set()

    def work() -> None:
        try:
            complete(asked, pass_on)
        except ValueError as error:
            loop.call_soon_threadsafe(parts.put_nowait, {"error": _error(str(error), 400)})
        finally:
            loop.call_soon_threadsafe(parts.put_nowait, None)

    working = asyncio.create_task(asyncio.to_thread(work))
    try:
        while (part := await parts.get()) is not None:
            yield f"data: {json.dumps(part)}\n\n"
    finally:
        gone.set()  # the client, if not the answer's end
    await working
    yield "data: [DONE]\n\n"


def _refused(message: str, status: int) -> Response:
    return JSONResponse({"error": _error(message, status)}, status)


def _error(message: str, status: int) -> dict[str, Any]:
    return {"message": message, "type": "invalid_request_error", "code": status}


def main(arguments: list[str]) -> None:
    """Serve until SIGTERM."""
    import uvicorn

    file, host, port, model, tokens, *settings = arguments
    server = start(Path(file), int(tokens), settings)
    app: Any = application(server.handle_chat_completions, model)
    uvicorn.run(RequireKey(app), host=host, port=int(port), log_level="warning", timeout_graceful_shutdown=2)


if __name__ == "__main__":
    main(sys.argv[1:])
