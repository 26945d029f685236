"""Runs an ASGI app on a socket in our own event loop, with uvicorn."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import socket
from collections.abc import Callable, Generator
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
"""Approximate limit in bytes of a request's head."""
TCP = "mcp_bench.tcp"
"""Key of the ASGI scope that holds the `TcpConnection` of a request."""
_log = logging.getLogger(__name__)


def bind(host: str, port: int) -> socket.socket:
    """Return a listening socket. Port 0 takes a free port.

    Raises:
        BenchError: the address is in use, or does not belong to this machine.
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


def url_host(host: str) -> str:
    """Return a host as a URL needs it to reach the host from this machine."""
    bare = host.strip("[]")
    with contextlib.suppress(ValueError):
        address = ipaddress.ip_address(bare)
        if address.is_unspecified:
            return "127.0.0.1"
        return f"[{bare}]" if address.version == 6 else bare
    return bare


async def listen(
    app: ASGIApp,
    listener: socket.socket,
    *,
    max_connections: int = MAX_CONNECTIONS,
    drain: int = DRAIN_SECONDS,
    patience: float = PATIENCE_SECONDS,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Serve `app` until cancelled. Write nothing to stdout, and set no signal handlers.

    Args:
        app: The ASGI app.
        listener: A listening socket.
        max_connections: Further connections are answered with 503.
        drain: Seconds for running requests after the cancellation. GET streams are closed at once.
        patience: Seconds to wait for the head of a request, and for each next part of its body. After that
            the request is dropped, if possible with status 408.
        task_status: Started once the app is served.
    """
    streams = _Streams(app, patience)
    config = uvicorn.Config(
        streams,
        lifespan="off",
        ws="none",
        log_config=None,
        log_level=logging.CRITICAL,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        limit_concurrency=max_connections,
        timeout_graceful_shutdown=drain,
        http=partial(HeadTimeoutProtocol, patience=patience),  # type: ignore[arg-type]
    )
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
        """Leave signal handling to the command."""
        yield


class _Streams:
    """Middleware that can end GET requests, whose responses may be endless, and drops slow requests."""

    def __init__(self, app: ASGIApp, patience: float) -> None:
        self._app = app
        self._patience = patience
        self._open: set[anyio.CancelScope] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # RFC 9110, section 5.5: whitespace around a value is not part of it, but httptools keeps it
        scope["headers"] = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
        try:
            if scope["method"] == "GET":
                await self._pass_until_end(scope, receive, send)
            elif cast(TcpConnection, scope[TCP]).whole:
                await self._app(scope, receive, send)
            else:
                await self._pass(scope, receive, send)
        except Exception:
            _log.exception("%s %s", scope["method"], scope["path"])
            raise

    async def _pass_until_end(self, scope: Scope, receive: Receive, send: Send) -> None:
        with anyio.CancelScope() as whole:
            self._open.add(whole)
            try:
                await self._pass(scope, receive, send)
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
            _log.warning("dropped a request of %s: its body did not arrive", client_of(scope))
            if not started:
                text = f"no more of the request arrived within {self._patience:.0f} seconds"
                await PlainTextResponse(text, 408, {"Connection": "close"})(scope, receive, send)

    def end(self) -> None:
        for scope in self._open:
            scope.cancel()


class TcpConnection:
    """Identifies a TCP connection across its requests, and reports when the client goes away."""

    def __init__(self) -> None:
        self.whole = False
        """All requests have arrived completely so far."""
        self.lost = False
        self.on_lost: Callable[[], object] | None = None
        """Called when the client goes away during a request; see `calling_when_lost`."""

    @contextlib.contextmanager
    def calling_when_lost(self, gone: Callable[[], object]) -> Generator[None, None, None]:
        """Call `gone` when the client goes away during the block, which handles one request.

        Unlike a task that waits for `http.disconnect`, this costs nothing while the client stays.
        """
        self.on_lost = gone
        try:
            if self.lost:
                gone()
            yield
        finally:
            self.on_lost = None

    def end(self) -> None:
        """Note that the client has gone away."""
        self.lost = True
        if self.on_lost is not None:
            self.on_lost()


class _Joined:
    """A transport that writes at once what is written within one turn of the event loop.

    uvicorn writes the head of a response and each part of its body separately. Each write is a system call,
    and wakes the client.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._call_soon = loop.call_soon
        self._waiting: list[bytes] = []

    def write(self, data: bytes) -> None:
        if not self._waiting:
            self._call_soon(self._write)
        self._waiting.append(data)

    def close(self) -> None:
        self._write()
        self._transport.close()

    def _write(self) -> None:
        if self._waiting:
            data, self._waiting = b"".join(self._waiting), []
            self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class HeadTimeoutProtocol(HttpToolsProtocol):
    """Close a connection if the head of a request is not complete after `patience` seconds, or too large.

    uvicorn waits for a head forever, and accepts one of any size. Some hundred clients that send a byte now
    and then would lock out all others.
    """

    def __init__(self, *args: Any, patience: float = PATIENCE_SECONDS, **options: Any) -> None:
        super().__init__(*args, **options)
        self._patience = patience
        self._deadline: asyncio.TimerHandle | None = None
        """Set while a head is awaited."""
        self._received = 0
        self._connection = TcpConnection()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(cast(asyncio.Transport, _Joined(transport, self.loop)))
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_complete()
        super().connection_lost(exc)
        self._connection.end()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._deadline is not None:
            self._received += len(data)
            if self._received > MAX_HEAD:
                self.transport.close()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        cast(dict[str, object], self.scope)[TCP] = self._connection
        self._connection.whole = False
        if self._deadline is None:
            self._await_head()

    def on_headers_complete(self) -> None:
        self._head_complete()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._connection.whole = True

    def _await_head(self) -> None:
        self._received = 0
        self._deadline = self.loop.call_later(self._patience, self.transport.close)

    def _head_complete(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
