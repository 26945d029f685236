"""Backends of an episode's wire: a world in this process, or a server that is started for it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

import anyio
from mcp_types import RequestId

from mcp_bench.recorder.records import Termination
from mcp_bench.servers.contracts import ToolSpec
from mcp_bench.servers.mcp_server.connection import MAX_LINE, Connection
from mcp_bench.servers.mcp_server.lines import UnfinishedLine
from mcp_bench.servers.mcp_server.world_session import WorldSession

SERVER_NAME = "bench"

Deliver = Callable[[bytes], Awaitable[None]]
"""Records and forwards output of the server. Raises BrokenResourceError if the client no longer reads."""


class BackendConnection(Protocol):
    """The server's side of one connection."""

    async def send(self, chunk: bytes, /) -> None:
        """Pass on bytes of the client. Return when the server can take more."""
        ...

    async def flush(self) -> None:
        """Pass on a last line that has no end: the client sends no more, and may wait for its answer."""
        ...

    async def send_eof(self) -> None:
        """Signal that the client sends no more."""
        ...

    async def ended(self) -> None:
        """Return when the server sends no more."""
        ...


class Backend(Protocol):
    """The server or world behind all connections of one episode."""

    tools: tuple[str, ...]
    """Names of the tools. Empty if they are not known in advance."""
    arguments: Mapping[str, tuple[str, ...]]
    """Names of the arguments of each tool, if they are known."""
    answers_before_eof: bool
    """Whether open requests must be answered before the end of input, because they are dropped after it."""
    fault: str | None
    """Failure of the backend that makes the episode invalid, if any."""

    def connect(
        self, deliver: Deliver, on_execute: Callable[[RequestId], None]
    ) -> AbstractAsyncContextManager[BackendConnection]:
        """Open a connection. It ends when the context is left.

        Args:
            deliver: Gets the bytes that the server sends.
            on_execute: Gets the id of each call when it starts to run, if the backend knows that.
        """
        ...

    async def cut_off(self) -> Termination:
        """Return why the attempt must end, once it must: calls are used up, or the world is over."""
        ...


def argument_names(tool: ToolSpec) -> tuple[str, ...]:
    """Return the arguments that a tool's schema names."""
    properties = tool.input_schema.get("properties")
    return tuple(properties) if isinstance(properties, dict) else ()


class WorldBackend:
    """A world in this process, shared by all connections."""

    answers_before_eof = True
    fault: str | None = None

    def __init__(self, session: WorldSession, later: Sequence[ToolSpec] = ()) -> None:
        """Open the backend.

        Args:
            session: The world.
            later: Tools that the world may get. They are named from the start: an agent's list of allowed
                tools is written before it starts.
        """
        self._session = session
        named = {tool.name: argument_names(tool) for tool in (*later, *session.tools)}
        self.tools = tuple(named)
        self.arguments: Mapping[str, tuple[str, ...]] = {
            tool: arguments for tool, arguments in named.items() if arguments
        }

    @asynccontextmanager
    async def connect(
        self, deliver: Deliver, on_execute: Callable[[RequestId], None]
    ) -> AsyncIterator[BackendConnection]:
        async with Connection(
            self._session, name=SERVER_NAME, send=deliver, on_execute=on_execute
        ) as connection:
            yield _WorldConnection(connection)

    async def cut_off(self) -> Termination:
        first: list[Termination] = []

        async def wait(event: anyio.Event, reason: Termination) -> None:
            await event.wait()
            first.append(reason)
            waiting.cancel_scope.cancel()

        async with anyio.create_task_group() as waiting:
            waiting.start_soon(wait, self._session.limit_reached, "max_calls")
            waiting.start_soon(wait, self._session.over, "world_over")
        return first[0]


class LineFeeder:
    """Splits chunks into lines, and passes each line to a server's connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._line = UnfinishedLine(MAX_LINE)

    async def send(self, chunk: bytes, /) -> None:
        for line in self._line.complete(chunk):
            await self._connection.receive(line)

    async def flush(self) -> None:
        if self._line:
            await self._connection.receive(self._line.take())


class _WorldConnection(LineFeeder):
    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._over = anyio.Event()

    async def send_eof(self) -> None:
        self._over.set()

    async def ended(self) -> None:
        await self._over.wait()
