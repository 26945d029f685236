"""What uvicorn lacks: connections that are given up, and told apart.

A connection is given up where a request's head does not come, or has no end: uvicorn waits for a head for as
long as the client likes, and takes one of any size. Some hundred connections that say a byte now and then
would keep everybody else out.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

SECONDS = 30.0
MAX_HEAD = 1 << 16
"""Bytes of a request's head, about."""


TCP = "mcp_bench.tcp"
"""Key of the ASGI scope that holds the `TcpConnection` a request came on."""


class TcpConnection:
    """Stands for one connection, however many requests come on it."""


class Impatient(HttpToolsProtocol):
    """Closes a connection whose next request has begun `patience` seconds ago and has no whole head yet."""

    def __init__(self, *args: Any, patience: float = SECONDS, **options: Any) -> None:
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
