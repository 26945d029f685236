"""Runs an ASGI app on a socket inside our own event loop, with uvicorn."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Generator
from functools import partial
from typing import Any, cast

import anyio
import uvicorn
from anyio.abc import TaskStatus
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from mcp_bench.bridge.http.access import client_of
from mcp_bench.servers.errors import BenchError

DRAIN_SECONDS = 5
MAX_CONNECTIONS = 1024
PATIENCE_SECONDS = 30.0
MAX_HEAD = 1 << 16
"""Bytes of a request's head, about."""
TCP = "mcp_bench.tcp"
"""Key of the ASGI scope that holds the `TcpConnection` a request came on."""
_log = logging.getLogger(__name__)


def bind(host: str, port: int) -> socket.socket:
    """Return a socket that listens; port 0 takes a free one.

    Raises:
        BenchError: the address is in use, or not this machine's.
    """
    bare = host.strip("[]")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(bare, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise BenchError(f"cannot listen on {host}:{port}: {error.strerror}") from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(MAX_CONNECTIONS)
    except OSError as error:
        listener.close()
        raise BenchError(f"cannot listen on {host}:{port}: {error.strerror}. Choose another port") from error
    return listener


async def listen(
    app: ASGIApp,
    listener: socket.socket,
    *,
    max_connections: int = MAX_CONNECTIONS,
    drain: int = DRAIN_SECONDS,
    patience: float = PATIENCE_SECONDS,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Serve `app` until cancelled; then end open GET streams, and give other requests `drain` seconds.

    More than `max_connections` at once are answered 503. A request whose head is not whole, or of whose body
    nothing more has come, after `patience` seconds is given up (408 where that can still be said).
    Nothing is written to stdout, and no signal handler is set.
    """
    streams = _Streams(app, patience)
    config = uvicorn.Config(
        streams, lifespan="off", ws="none", log_config=None, log_level=logging.CRITICAL, access_log=False,
        proxy_headers=False, server_header=False, date_header=False, limit_concurrency=max_connections,
        timeout_graceful_shutdown=drain,
        http=partial(Impatient, patience=patience),  # type: ignore[arg-type]
    )  # fmt: skip
    server = _Server(config)

    async def serve() -> None:
        with anyio.CancelScope(shield=True):
            await server.serve(sockets=[listener])

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve)
        task_status.started()
        try:
            await anyio.sleep_forever()
        finally:
            server.should_exit = True
            streams.end()


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Leave signals to the command."""
        yield


class _Streams:
    """Between uvicorn and an app: knows the GET requests, whose responses need not end by themselves."""

    def __init__(self, app: ASGIApp, patience: float) -> None:
        self._app = app
        self._patience = patience
        self._open: set[anyio.CancelScope] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # RFC 9110, section 5.5: space around a value is no part of it. httptools leaves it there
        scope["headers"] = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
        with anyio.CancelScope() as whole:
            if scope["method"] == "GET":
                self._open.add(whole)
            try:
                await self._pass(scope, receive, send)
            except Exception:
                _log.exception("%s %s", scope["method"], scope["path"])
                raise
            finally:
                self._open.discard(whole)

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        more, late, started = True, False, False

        async def receive_in_time() -> Message:
            nonlocal more, late
            if not more:
                return await receive()
            with anyio.move_on_after(self._patience):
                message = await receive()
                more = message.get("more_body", False)
                return message
            late, more = True, False
            return {"type": "http.disconnect"}

        async def send_noted(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        await self._app(scope, receive_in_time, send_noted)
        if late:
            _log.warning("gave up a request of %s: its body did not come", client_of(scope))
            if not started:
                text = f"nothing more of the request came within {self._patience:.0f} seconds"
                await PlainTextResponse(text, 408, {"Connection": "close"})(scope, receive, send)

    def end(self) -> None:
        for scope in self._open:
            scope.cancel()


class TcpConnection:
    """Stands for one connection, however many requests come on it."""


class Impatient(HttpToolsProtocol):
    """Closes a connection whose next request has begun `patience` seconds ago and has no whole head yet."""

    def __init__(self, *args: Any, patience: float = PATIENCE_SECONDS, **options: Any) -> None:
        super().__init__(*args, **options)
        self._patience = patience
        self._deadline: asyncio.TimerHandle | None = None
        """There while a head is awaited."""
        self._came = 0
        self._connection = TcpConnection()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_came()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._deadline is not None:
            self._came += len(data)
            if self._came > MAX_HEAD:
                self.transport.close()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        cast(dict[str, object], self.scope)[TCP] = self._connection
        if self._deadline is None:
            self._await_head()

    def on_headers_complete(self) -> None:
        self._head_came()
        super().on_headers_complete()

    def _await_head(self) -> None:
        self._came = 0
        self._deadline = self.loop.call_later(self._patience, self.transport.close)

    def _head_came(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
