"""What an episode's wire leads to: a world in this process, or a server that is started for it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

import anyio
from mcp_types import RequestId

from mcp_bench.servers.connection import MAX_LINE, Connection
from mcp_bench.servers.lines import UnfinishedLine
from mcp_bench.servers.world_session import WorldSession

SERVER_NAME = "bench"

Deliver = Callable[[bytes], Awaitable[None]]
"""Records and forwards what a server says. Raises BrokenResourceError when nobody reads it."""


class BackendConnection(Protocol):
    """The server of one connection."""

    async def send(self, chunk: bytes, /) -> None:
        """Give it what the client sent. Returns when more may come."""
        ...

    async def send_eof(self) -> None:
        """Tell it that the client sends no more."""
        ...

    async def ended(self) -> None:
        """Return when it says no more."""
        ...


class Backend(Protocol):
    """What all connections of one episode lead to."""

    tools: tuple[str, ...]
    """Names of the tools; empty where they are not known beforehand."""
    answers_before_eof: bool
    """Whether it drops what it has not answered when its input ends."""
    fault: str | None
    """What went wrong with it, so that the episode says nothing about the agent."""

    def connect(
        self, deliver: Deliver, on_execute: Callable[[RequestId], None]
    ) -> AbstractAsyncContextManager[BackendConnection]:
        """Open a connection; it is over when the context is left. `on_execute` gets the id of each call
        at the moment it begins to run, where that can be told."""
        ...

    async def limit_reached(self) -> None:
        """Return when the agent has made all the calls it may."""
        ...


class WorldBackend:
    """A world in this process, which all connections share."""

    answers_before_eof = True
    fault: str | None = None

    def __init__(self, session: WorldSession) -> None:
        self._session = session
        self.tools = tuple(tool.name for tool in session.tools)

    @asynccontextmanager
    async def connect(
        self, deliver: Deliver, on_execute: Callable[[RequestId], None]
    ) -> AsyncIterator[BackendConnection]:
        async with Connection(
            self._session, name=SERVER_NAME, send=deliver, on_execute=on_execute
        ) as connection:
            yield _WorldConnection(connection)

    async def limit_reached(self) -> None:
        await self._session.limit_reached.wait()


class _WorldConnection:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._line = UnfinishedLine(MAX_LINE)
        self._over = anyio.Event()

    async def send(self, chunk: bytes, /) -> None:
        first, *rest = chunk.split(b"\n")
        self._line.add(first)
        for part in rest:
            await self._connection.receive(self._line.take())
            self._line.add(part)

    async def send_eof(self) -> None:
        if self._line:
            await self._connection.receive(self._line.take())
        self._over.set()

    async def ended(self) -> None:
        await self._over.wait()
