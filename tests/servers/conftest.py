"""Fixtures that connect the server and the SDK's own client over a socket."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio
import pytest
from anyio.abc import SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream
from mcp import Client

from mcp_bench.servers.mcp_server.server import OnExecute, WorldSession, serve
from tests.support.sdk_lines import MessageReader, MessageWriter

SERVER_NAME = "workspace"


class RawConnection:
    """A client that writes and reads raw lines."""

    def __init__(self, stream: SocketStream) -> None:
        self.stream = stream
        self._received = BufferedByteReceiveStream(stream)

    async def send(self, *lines: bytes) -> None:
        await self.stream.send(b"".join(line + b"\n" for line in lines))

    async def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        await self.send(json.dumps(message).encode())
        return await self.next()

    async def next(self) -> dict[str, Any]:
        with anyio.fail_after(20):
            found: dict[str, Any] = json.loads(await self._received.receive_until(b"\n", 1 << 26))
        return found


@asynccontextmanager
async def served(session: WorldSession, on_execute: OnExecute | None = None) -> AsyncIterator[SocketStream]:
    """Serve `session` on one end of a socket pair; yield the other end."""
    ours, theirs = socket.socketpair()
    async with (
        await SocketStream.from_socket(ours) as client,
        await SocketStream.from_socket(theirs) as server,
        anyio.create_task_group() as tasks,
    ):

        async def run() -> None:
            await serve(session, server, name=SERVER_NAME, on_execute=on_execute)

        tasks.start_soon(run)
        yield client
        await client.send_eof()  # makes the server end; otherwise the test hangs


@asynccontextmanager
async def raw_connection(
    session: WorldSession, on_execute: OnExecute | None = None
) -> AsyncIterator[RawConnection]:
    async with served(session, on_execute) as stream:
        yield RawConnection(stream)


@asynccontextmanager
async def sdk_client(
    session: WorldSession, mode: str = "auto", on_execute: OnExecute | None = None
) -> AsyncIterator[Client]:
    async with served(session, on_execute) as stream:

        @asynccontextmanager
        async def transport() -> AsyncIterator[Any]:
            yield MessageReader(stream), MessageWriter(stream)

        async with Client(transport(), mode=mode) as client:
            yield client


@pytest.fixture
def raw() -> Callable[..., AbstractAsyncContextManager[RawConnection]]:
    return raw_connection


@pytest.fixture
def connect() -> Callable[..., AbstractAsyncContextManager[Client]]:
    return sdk_client
