"""A reverse proxy for MCP servers and model endpoints: an ASGI app that streams in both directions.

It forwards bytes as they arrive and waits for the slower side, so at most a few chunks are in memory. It
changes only what a proxy must (RFC 9110, section 7.6): hop-by-hop headers, `Host`, and redirects to the
server's own address, which would lead the client past the proxy. It requests no content coding, so that
messages are readable.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import string
from collections.abc import AsyncIterator, Callable, Iterable
from functools import partial
from types import TracebackType
from typing import Self
from urllib.parse import quote, urlsplit

import aiohttp
import anyio
from anyio.lowlevel import checkpoint_if_cancelled
from starlette.types import Message, Receive, Scope, Send
from yarl import URL

from mcp_bench.bridge.http.access import PREFIX
from mcp_bench.bridge.http.frames import SSE_TYPE
from mcp_bench.bridge.http.listen import TCP, TcpConnection
from mcp_bench.bridge.model_endpoint.url import is_http_url
from mcp_bench.servers.errors import WrongUseError

CONNECT_SECONDS = 10.0
END_SECONDS = 0.1
"""How long a server may take to end a response whose client has left after an event."""
KEEP_SECONDS = 4.0
"""Lifetime of an idle connection: less than the 5 seconds after which common servers close it."""
EVENTS = SSE_TYPE.decode()
MAX_HEADER = 1 << 16
SERVER_ERROR = -32000
"""First of the JSON-RPC codes for errors that the implementation defines."""

_ONE_CONNECTION = {
    b"connection",
    b"keep-alive",
    b"proxy-authenticate",
    b"proxy-authorization",
    b"proxy-connection",
    b"te",
    b"trailer",
    b"transfer-encoding",
    b"upgrade",
}
_SET_HERE = {b"host", b"accept-encoding", b"expect"}
_ADDED_BY_CLIENT = ("Accept", "Content-Type", "User-Agent")
_log = logging.getLogger(__name__)

Headers = list[tuple[bytes, bytes]]


class ReverseProxy:
    """Forward every request to the server of a URL. Use it as an async context manager."""

    def __init__(self, url: str, *, peer: str = "MCP server") -> None:
        """Set up a proxy for the server at `url`. Errors call the server `peer`.

        Raises:
            WrongUseError: the URL is not http or https, or contains a user or password.
        """
        if not is_http_url(url):
            raise WrongUseError(
                f"{url!r} is not the URL of a server: give one like http://127.0.0.1:8000/mcp"
            )
        parts = urlsplit(url)
        if parts.username or parts.password:
            raise WrongUseError("the URL contains a user or password: let the client send a header instead")
        self.path = parts.path or "/"
        """Path of the endpoint, at the server and at this proxy."""
        self._query = quote(parts.query, safe=string.punctuation).encode()
        """Sent with each request. The client does not see it: it can contain a login."""
        self._peer = peer
        self.origin = f"{parts.scheme}://{parts.netloc}"
        self._host = parts.netloc
        self._session: aiohttp.ClientSession

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_SECONDS),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=_ADDED_BY_CLIENT,
            auto_decompress=False,
            max_line_size=MAX_HEADER,
            max_field_size=MAX_HEADER,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with anyio.CancelScope(shield=True):
            await self._session.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward one exchange.

        When the client goes away, the connection to the server is closed too. Clients may leave as soon as
        they have the event that answers them. So when one leaves after an event, the server gets a moment to
        end its response, and nothing more of it is passed on: the connection is then kept for other requests.
        When the server breaks off, the response stays incomplete and the ASGI server closes the client's
        connection, because a truncated response must not look complete.
        """
        first = await receive()
        if first["type"] == "http.disconnect":
            return
        connection: TcpConnection = scope[TCP]
        with anyio.CancelScope() as whole, connection.calling_when_lost(whole.cancel):
            body: bytes | AsyncIterator[bytes] = first.get("body", b"")
            if first.get("more_body", False):
                body = _request_body(first, receive, whole.cancel)
            await self._forward(scope, body, send, whole)
        if connection.lost:
            await receive()  # middleware learns from it that the client went away

    async def _forward(
        self, scope: Scope, body: bytes | AsyncIterator[bytes], send: Send, whole: anyio.CancelScope
    ) -> None:
        connection: TcpConnection = scope[TCP]
        head: Message | None = None
        started = False

        async def start() -> None:
            nonlocal started
            if head is not None and not started:
                started = True
                await send(head)

        try:
            async with self._open(scope, body) as response:
                headers = [
                    self._rewrite_redirect(header, scope.get(PREFIX, ""))
                    for header in _end_to_end(response.raw_headers)
                ]
                head = {"type": "http.response.start", "status": response.status, "headers": headers}
                if not response.content_length:  # else head and body leave together: the client wakes once
                    await start()
                async for chunk in response.content.iter_any():
                    if connection.lost:
                        return
                    await start()
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
                    if response.content_type == EVENTS:  # it may have been the answer
                        later = asyncio.get_running_loop().call_later
                        connection.on_lost = partial(later, END_SECONDS, whole.cancel)
                await start()
        except aiohttp.ClientError as error:
            await checkpoint_if_cancelled()  # the client may have caused it
            await start()
            if started:
                _log.warning("the %s at %s broke off its response: %s", self._peer, self.origin, _why(error))
            else:
                await _refuse(send, f"no answer from the {self._peer} at {self.origin}: {_why(error)}")
            return
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _open(
        self, scope: Scope, body: bytes | AsyncIterator[bytes]
    ) -> contextlib.AbstractAsyncContextManager[aiohttp.ClientResponse]:
        query = b"&".join(filter(None, (self._query, scope["query_string"])))
        target = scope["raw_path"] + (b"?" + query if query else b"")
        headers = [("Host", self._host), ("Accept-Encoding", "identity")]
        headers += [
            (name.decode("ascii"), value.decode("utf-8", "replace"))
            for name, value in _end_to_end(scope["headers"])
            if name not in _SET_HERE
        ]
        url = URL(f"{self.origin}{target.decode('ascii')}", encoded=True)
        return self._session.request(
            scope["method"], url, headers=headers, data=body or None, allow_redirects=False
        )

    def _rewrite_redirect(self, header: tuple[bytes, bytes], prefix: str) -> tuple[bytes, bytes]:
        name, value = header
        if name != b"location":
            return header
        if value.startswith(self.origin.encode() + b"/"):
            value = value[len(self.origin) :]
        below = value.startswith(b"/") and not value.startswith(b"//")
        return name, prefix.encode() + value if below else value


async def _request_body(
    message: Message, receive: Receive, broken: Callable[[], object]
) -> AsyncIterator[bytes]:
    while message["type"] == "http.request":
        if chunk := message.get("body", b""):
            yield chunk
        if not message.get("more_body", False):
            return
        message = await receive()
    broken()
    raise ConnectionResetError("the client went away before its request was complete")


def _end_to_end(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Return the headers that a proxy forwards, with names in lower case."""
    lower = [(name.lower(), value) for name, value in headers]
    named = {
        token.strip().lower() for name, value in lower if name == b"connection" for token in value.split(b",")
    }
    return [(name, value) for name, value in lower if name not in _ONE_CONNECTION and name not in named]


def _why(error: aiohttp.ClientError) -> str:
    """Return what an error says, without the URL: its query can contain a login."""
    if isinstance(error, aiohttp.ClientResponseError):
        return error.message
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return f"no connection within {CONNECT_SECONDS:g} seconds"
    return str(error)


async def _refuse(send: Send, text: str) -> None:
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": SERVER_ERROR, "message": text}}
    body = json.dumps(error).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 502, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
