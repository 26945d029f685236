"""Serve a GGUF file with llama.cpp's server. Every request must show the key, whatever its path.

Run as `python -m mcp_bench.trainer.serving.llama_cpp_server FILE HOST PORT MODEL TOKENS [NAME=VALUE ...]`, in
a folder of the user's own.

llama.cpp's own listener leaves paths open without a key (`/health`). It gets a socket in that folder, which
nobody else can enter, and a key that only the application below knows, which passes requests on. llama.cpp
stops when a request's connection is closed. xllamacpp's functions that answer requests cannot be stopped.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import sys
import time
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path
from typing import Any

from httpx2 import AsyncClient, AsyncHTTPTransport, Limits, TransportError
from httpx2 import Response as Answer
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from mcp_bench.trainer.serving.require_key import RequireKey

SLOTS = 4
"""Conversations that are generated at the same time; further ones wait."""
SOCKET = "llama.sock"
"""Where llama.cpp listens, relative to the working directory: a socket's path has at most 107 bytes."""
CHAT, EVENTS, JSON = "/v1/chat/completions", "text/event-stream", "application/json"


def start(file: Path, tokens: int, settings: list[str], key: str) -> Any:
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
    params.hostnames = [SOCKET]
    params.api_keys = [key]
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


def application(llama: AsyncClient, model: str) -> Starlette:
    """Return the ASGI application: `/v1/models` and `/v1/chat/completions`.

    Args:
        llama: asks llama.cpp's listener.
        model: model name for clients.
    """
    started = int(time.time())

    async def models(request: Request) -> Response:
        entry = {"id": model, "object": "model", "created": started, "owned_by": "mcp-bench"}
        return JSONResponse({"object": "list", "data": [entry]})

    async def chat(request: Request) -> Response:
        try:
            body = await request.body()
            asked = json.loads(body)
        except (ValueError, RecursionError) as error:
            return _refused(f"the body is not JSON: {error}", 400)
        if not isinstance(asked, dict):
            return _refused("the body is not a JSON object", 400)
        if asked.get("model") not in (None, model):
            return _refused(f"no model {asked['model']!r}: this server has {model!r}", 404)
        try:
            # as it came: not all that can be read, such as half an emoji, can be written again
            post = llama.build_request("POST", CHAT, content=body, headers={"Content-Type": JSON})
            answer = await _unless_gone(request, llama.send(post, stream=True))
            if answer is None:
                return Response()  # to nobody
            if answer.headers.get("content-type", "").startswith(EVENTS):
                return _Stream(answer, model)
            said = json.loads(await answer.aread())
        except TransportError as error:
            return _refused(f"llama.cpp does not answer: {error}", 502)
        if answer.is_success:
            said["model"] = model
        return JSONResponse(said, answer.status_code)  # an error, such as a prompt that is too long

    routes = [Route("/v1/models", models), Route(CHAT, chat, methods=["POST"])]
    return Starlette(routes=routes)


async def _unless_gone(request: Request, asking: Awaitable[Answer]) -> Answer | None:
    """Return llama.cpp's answer; None if the client disconnects first: llama.cpp then stops.

    It notices within a second that nobody waits for its answer.
    """
    answer, gone = asyncio.ensure_future(asking), asyncio.create_task(_disconnected(request))
    try:
        await asyncio.wait({answer, gone}, return_when=asyncio.FIRST_COMPLETED)
        return answer.result() if answer.done() else None
    finally:
        answer.cancel()
        gone.cancel()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


class _Stream(StreamingResponse):
    """Passes the parts of an answer on, until its end or until the client disconnects."""

    def __init__(self, answer: Answer, model: str) -> None:
        super().__init__(_parts(answer, model), media_type=EVENTS)
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._answer.aclose()


async def _parts(answer: Answer, model: str) -> AsyncIterator[str]:
    async for line in _lines(answer):
        name, _, content = line.decode().partition(": ")
        if content.startswith("{"):
            content = json.dumps({**json.loads(content), "model": model})
        if content:
            yield f"{name}: {content}\n\n"


async def _lines(answer: Answer) -> AsyncIterator[bytes]:
    """Yield the lines of an answer. Its own `aiter_lines` also divides at U+2028 and the like."""
    rest = b""
    async for part in answer.aiter_bytes():
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            yield line.removesuffix(b"\r")
    if rest:
        yield rest


def _refused(message: str, status: int) -> Response:
    return JSONResponse({"error": _error(message, status)}, status)


def _error(message: str, status: int) -> dict[str, Any]:
    return {"message": message, "type": "invalid_request_error", "code": status}


def main(arguments: list[str]) -> None:
    """Serve until SIGTERM."""
    import uvicorn

    file, host, port, model, tokens, *settings = arguments
    key = secrets.token_urlsafe(32)
    server = start(Path(file), int(tokens), settings, key)
    llama = AsyncClient(
        base_url="http://llama",
        headers={"Authorization": f"Bearer {key}"},
        timeout=None,
        transport=AsyncHTTPTransport(
            uds=SOCKET, limits=Limits(max_connections=None, max_keepalive_connections=0)
        ),
    )
    app: Any = application(llama, model)
    uvicorn.run(RequireKey(app), host=host, port=int(port), log_level="warning", timeout_graceful_shutdown=2)
    del server  # it lives until here


if __name__ == "__main__":
    main(sys.argv[1:])
