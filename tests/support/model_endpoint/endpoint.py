"""A model endpoint on 127.0.0.1 that plays scripts in the dialects that agents speak.

    with ModelEndpoint([script_from_reference(prompt, reference)]) as endpoint:
        ...                       # endpoint.openai_url, endpoint.anthropic_url
        endpoint.requests[0].usage

`python -m tests.support.model_endpoint --scripts FILE` runs the same thing as a process.
"""

from __future__ import annotations

import json
import logging
import socket
import threading
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Any, Self

import anyio
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from .dialect import Dialect
from .dialects import DIALECTS
from .fault import Fault
from .script import Script, TokenUsage, Turn, choose_script, play

KEY_HEADERS = ("authorization", "x-api-key", "x-goog-api-key")


@dataclass(frozen=True)
class Received:
    """One request and its answer. `usage` is None if the answer was an error."""

    dialect: str
    model: str
    stream: bool
    tools: tuple[str, ...]
    results: int
    """Number of tool results in the conversation."""
    prompt: str | None
    """The prompt of the script that was played; None for side requests."""
    status: int
    usage: TokenUsage | None
    body: dict[str, Any] = field(repr=False)
    raw: bytes = field(repr=False)
    """The unparsed body."""
    sent: bytes | None = field(repr=False)
    """The body of the answer; None if a fault changed it."""


class ModelEndpoint:
    """Use as a context manager; a thread serves requests."""

    def __init__(
        self,
        scripts: Iterable[Script] = (),
        *,
        fault: Fault | None = None,
        api_key: str | None = None,
        port: int = 0,
    ) -> None:
        """Tests can replace `scripts` and `fault` at any time.

        Args:
            api_key: requests without this key get a 401.
        """
        self.scripts = list(scripts)
        self.fault = fault
        self.requests: list[Received] = []
        self.unknown: list[str] = []
        """Method and path of requests that no route answers."""
        self._api_key = api_key
        self._count = 0
        self._lock = threading.Lock()
        self._socket = socket.create_server(("127.0.0.1", port))
        self.port: int = self._socket.getsockname()[1]
        config = uvicorn.Config(
            self._app(),
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self.serve, name="model-endpoint", daemon=True)

    @property
    def anthropic_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def gemini_url(self) -> str:
        return self.anthropic_url

    @property
    def openai_url(self) -> str:
        return f"{self.anthropic_url}/v1"

    @property
    def answered(self) -> list[Received]:
        """The requests that a script answered, in order."""
        return [request for request in self.requests if request.prompt and request.usage]

    def serve(self) -> None:
        """Serve until `stop`; the socket already listens."""
        logging.getLogger("uvicorn").setLevel(logging.CRITICAL)  # a cut stream is expected here
        self._server.run(sockets=[self._socket])

    def stop(self) -> None:
        """Make `serve` return soon; can be called from any thread."""
        if self.fault and self.fault.gate:
            self.fault.gate.release.set()
        self._server.should_exit = True

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self._thread.join()
        self._socket.close()

    def _app(self) -> Starlette:
        routes = [Route("/v1/models", lambda request: JSONResponse({"object": "list", "data": []}))]
        for dialect in DIALECTS:
            routes.append(Route(dialect.path, partial(self._turn, dialect), methods=["POST"]))
            for path, answer in dialect.side_paths:
                routes.append(Route(path, partial(_side, answer), methods=["POST"]))
        routes.append(Route("/{path:path}", self._unknown, methods=["GET", "POST", "HEAD"]))
        return Starlette(routes=routes)

    async def _turn(self, dialect: Dialect, request: Request) -> Response:
        with self._lock:
            number, self._count = self._count, self._count + 1
        fault = self.fault if self.fault and self.fault.strikes(number, await request.body()) else None
        try:
            body = {**await request.json(), **request.path_params}
            conversation = dialect.parse(body)
        except (KeyError, TypeError, ValueError) as error:
            return JSONResponse(dialect.error(400, f"cannot read the request: {error!r}", None), 400)
        if self._api_key and self._api_key not in _key(request):
            fault = Fault(status=401, message="The key is not the one that the test expects.")
        script = choose_script(conversation, self.scripts)
        turn = play(conversation, script, f"{number:04d}")
        status = (fault.status if fault else None) or 200
        parts = _parts(dialect, turn, stream=conversation.stream)
        received = Received(
            dialect=dialect.name,
            model=conversation.model,
            stream=conversation.stream,
            tools=tuple(tool.name for tool in conversation.tools),
            results=conversation.results,
            prompt=script.prompt if script else None,
            status=status,
            usage=None if fault and fault.spoils_the_answer else turn.usage,
            body=body,
            raw=await request.body(),
            sent=None if fault and fault.spoils_the_answer else b"".join(parts),
        )
        with self._lock:
            self.requests.append(received)
        if fault and fault.gate:
            fault.gate.arrived.set()
            await anyio.to_thread.run_sync(fault.gate.release.wait, abandon_on_cancel=True)
        if fault and fault.status:
            return JSONResponse(
                dialect.error(fault.status, fault.message, fault.code), fault.status, dict(fault.headers)
            )
        if fault and fault.text is not None:
            return PlainTextResponse(fault.text, media_type="application/json")
        return _reply(parts, stream=conversation.stream, cut=fault.cut if fault else None)

    async def _unknown(self, request: Request) -> Response:
        self.unknown.append(f"{request.method} {request.url.path}")
        return JSONResponse({"error": {"message": "nothing here", "type": "not_found_error"}}, 404)


async def _side(answer: Any, request: Request) -> Response:
    return JSONResponse(answer({**await request.json(), **request.path_params}))


def _key(request: Request) -> str:
    return " ".join(request.headers.get(name, "") for name in KEY_HEADERS)


def _parts(dialect: Dialect, turn: Turn, *, stream: bool) -> list[bytes]:
    """Return the answer in the pieces to send."""
    if stream:
        return [event.encode() for event in dialect.events(turn)]
    return [json.dumps(dialect.answer(turn)).encode()]  # keep the script's malformed text


def _reply(parts: list[bytes], *, stream: bool, cut: int | None) -> Response:
    if stream:
        return StreamingResponse(_send(parts, cut), media_type="text/event-stream")
    (whole,) = parts
    if cut is None:
        return Response(whole, media_type="application/json")
    return StreamingResponse(_send([whole[: len(whole) // 2], b""], 1), media_type="application/json")


async def _send(parts: list[bytes], cut: int | None) -> AsyncIterator[bytes]:
    for number, part in enumerate(parts):
        if number == cut:
            raise ConnectionAbortedError("the test asked for a cut stream")
        yield part
