"""ASGI middleware that stores the messages of an MCP endpoint while they stream through it.

In both directions, a message is stored before the chunk that completes it is passed on. Earlier chunks pass
at once, so only the end of a JSON body is held back. No byte is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from posixpath import normpath
from typing import Protocol
from urllib.parse import unquote

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcp_bench.bridge.http.frames import Whole, splitter_for
from mcp_bench.bridge.tap.pump import Splitter, Store
from mcp_bench.recorder.frames.body import Body
from mcp_bench.recorder.records import Direction

Headers = list[tuple[bytes, bytes]]


class Exchange(Protocol):
    """Receives the messages of one HTTP request and its response."""

    async def store(self, direction: Direction, bodies: Sequence[Body]) -> None:
        """Store messages. Return when they are committed."""
        ...

    def answered(self, status: int, headers: Headers) -> None:
        """Note the head of the response, before any message of the server."""
        ...

    def close(self, left: bool) -> None:
        """End the exchange. `left` means that the client went away before the end of the response."""
        ...


_NO_CODING = {"Accept-Encoding": "identity", "Connection": "close"}
"""RFC 9110, section 15.5.16. The body was not read."""
OpenExchange = Callable[[Scope], Exchange]
"""Opens an exchange for the ASGI scope of a request."""


class Recorded:
    """Pass every request to `app`, and the messages of its MCP endpoint also to an exchange."""

    def __init__(self, app: ASGIApp, open_exchange: OpenExchange, *, path: str | None = None) -> None:
        """Record the requests for `path` (default: all), however it is spelled."""
        self._app = app
        self._open = open_exchange
        self._path = None if path is None else _routed(unquote(path))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or self._path not in (None, _routed(scope["path"])):
            await self._app(scope, receive, send)
            return
        if any(name == b"content-encoding" and value != b"identity" for name, value in scope["headers"]):
            # many servers decode what they get, and then ran what nobody can read here
            answer = PlainTextResponse("send messages without content coding", 415, _NO_CODING)
            await answer(scope, receive, send)
            return
        exchange = self._open(scope)
        watch = _Watch()
        try:
            await self._app(scope, *_tee(exchange, watch, receive, send))
        finally:
            exchange.close(watch.left)


def _routed(path: str) -> str:
    """Return a path as lenient servers route it: they ignore case, empty parts, `.`, `..` and parameters."""
    parts = (part.partition(";")[0] for part in path.lower().split("/"))
    return normpath(f"/{'/'.join(parts).lstrip('/')}")


class _Watch:
    """How an exchange ended."""

    left = False
    """The client went away before the response was complete."""
    complete = False


def _tee(exchange: Exchange, watch: _Watch, receive: Receive, send: Send) -> tuple[Receive, Send]:
    request = _Stream(Whole(), lambda bodies: exchange.store("client", bodies))
    response = _Stream(None, lambda bodies: exchange.store("server", bodies))

    async def receive_recorded() -> Message:
        message = await receive()
        if message["type"] == "http.disconnect":
            watch.left = not watch.complete
        if message["type"] == "http.request":
            more = message.get("more_body", False)
            message["body"] = await request.record(message.get("body", b""), more)
        return message

    async def send_recorded(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = [(name.lower(), value) for name, value in message.get("headers", ())]
            exchange.answered(message["status"], headers)
            response.splitter = splitter_for(message["status"], headers)
        elif message["type"] == "http.response.body":
            more = message.get("more_body", False)
            body = await response.record(message.get("body", b""), more)
            if more and not body:
                return
            message = {**message, "body": body}
            watch.complete = not more
        await send(message)

    return receive_recorded, send_recorded


class _Stream:
    """One body that streams through. Without a splitter it is not recorded."""

    def __init__(self, splitter: Splitter | None, store: Store) -> None:
        self.splitter = splitter
        self._store = store
        self._withheld = b""

    async def record(self, chunk: bytes, more: bool) -> bytes:
        """Store the messages that `chunk` completes. Return the bytes that may pass now."""
        if self.splitter is None:
            return chunk
        bodies = self.splitter.feed(chunk)
        if not more and (rest := self.splitter.rest()) is not None:
            bodies.append(rest)
        if bodies:
            await self._store(bodies)
        if not isinstance(self.splitter, Whole):
            return chunk
        if more:  # hold back the newest chunk: it may be the last one
            if chunk:
                chunk, self._withheld = self._withheld, chunk
            return chunk
        chunk, self._withheld = self._withheld + chunk, b""
        return chunk
