"""Serve one client on a byte stream, such as standard input and output, and record every message."""

from __future__ import annotations

import os
import select
import stat
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import anyio
from anyio.abc import AnyByteReceiveStream, AnyByteSendStream, ByteReceiveStream, ByteSendStream

from mcp_bench.bridge.interactive.client import Client, ClientTools
from mcp_bench.bridge.interactive.clients import Clients, stop_on_signal
from mcp_bench.bridge.interactive.open_task import IN_FLIGHT_SECONDS, ClientInfo
from mcp_bench.bridge.interactive.routes import Routes
from mcp_bench.bridge.interactive.run import TaskChoice
from mcp_bench.bridge.tap.pump import pump
from mcp_bench.bridge.tap.traffic import client_info
from mcp_bench.bridge.wire.backend import SERVER_NAME, LineFeeder
from mcp_bench.recorder.frames.body import Body, LargeBody
from mcp_bench.servers.mcp_server.connection import Connection

CHUNK = 1 << 16


class RecordedConnection:
    """Serve one connection of a client. The caller closes the client and the streams."""

    def __init__(self, client: Client, source: AnyByteReceiveStream, sink: AnyByteSendStream) -> None:
        self.info: ClientInfo | None = None
        """Name and version of the client, once it has reported them."""
        self._source = source
        self._sink = sink
        self._recording = client.run.recording
        self._number = client.run.next_connection()
        self._session = ClientTools(client, self._number, lambda: self.info)
        self._routes = Routes(self._number, lambda: client.task)
        self._over = anyio.Event()

    async def run(self) -> None:
        """Serve until the client is gone. Requests that it sent before are answered.

        Raises:
            StorageError: the recording cannot be written.
        """
        try:
            async with (
                Connection(
                    self._session,
                    name=SERVER_NAME,
                    send=self._deliver,
                    on_execute=self._session.executes,
                    prompts=self._session,
                ) as connection,
                anyio.create_task_group() as tasks,
            ):
                tasks.start_soon(self._upstream, connection)
                await self._over.wait()
                tasks.cancel_scope.cancel()
        finally:
            for episode in self._routes.close():
                self._recording.close_connection(episode, self._number)

    async def _upstream(self, connection: Connection) -> None:
        feeder = LineFeeder(connection)
        await pump(self._source, feeder, self._from_client)
        await feeder.flush()
        with anyio.move_on_after(IN_FLIGHT_SECONDS):
            await self._routes.answered()
        self._over.set()

    async def _from_client(self, lines: Sequence[Body]) -> None:
        if self.info is None:
            reported = [client_info(line) for line in lines if not isinstance(line, LargeBody)]
            self.info = next((info for info in reported if info is not None), None)
        await self._recording.store(self._routes.from_client, self._number, "client", lines)

    async def _deliver(self, line: bytes) -> None:
        await self._recording.store(self._routes.from_server, self._number, "server", [line])
        try:
            await self._sink.send(line)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            self._over.set()  # the client reads no more
            raise


class Input(ByteReceiveStream):
    """Read a pipe, socket, terminal or file.

    A read in a thread could not be cancelled, and a client may keep our input open when we are asked to end.
    So each read waits until the descriptor is ready.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._waits = _can_wait(descriptor)

    async def receive(self, max_bytes: int = CHUNK) -> bytes:
        if self._waits:
            await anyio.wait_readable(self._descriptor)
        else:
            await anyio.lowlevel.checkpoint()
        try:
            data = os.read(self._descriptor, max_bytes)
        except OSError as error:
            raise anyio.BrokenResourceError from error
        if not data:
            raise anyio.EndOfStream
        return data

    async def aclose(self) -> None:
        os.close(self._descriptor)


def _can_wait(descriptor: int) -> bool:
    """Return whether a descriptor can be waited for, unlike a file or `/dev/null`, which are always ready."""
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)


class Output(ByteSendStream):
    """Write to a pipe, socket, terminal or file. Like `Input`, it can be cancelled while it waits."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._waits = _can_wait(descriptor)

    async def send(self, item: bytes) -> None:
        rest = memoryview(item)
        while rest:
            if self._waits:
                await anyio.wait_writable(self._descriptor)
            else:
                await anyio.lowlevel.checkpoint()
            try:
                # a writable pipe takes PIPE_BUF bytes without blocking (POSIX, pipe(7))
                rest = rest[os.write(self._descriptor, rest[: select.PIPE_BUF]) :]
            except OSError as error:
                raise anyio.BrokenResourceError from error

    async def aclose(self) -> None:
        os.close(self._descriptor)


@asynccontextmanager
async def standard_streams() -> AsyncIterator[tuple[Input, Output]]:
    """Yield streams on descriptors 0 and 1. From then on, a stray print goes to stderr."""
    sys.stdout.flush()
    source, sink = Input(os.dup(0)), Output(os.dup(1))
    with open(os.devnull, "rb") as nothing:  # noqa: ASYNC230, PTH123 - only its descriptor is used
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    async with source, sink:
        yield source, sink


async def serve_stdio(benchmark: str, choice: TaskChoice, idle: float) -> None:
    """Serve one client on stdin and stdout until it is gone or a signal arrives; then grade the open task.

    Raises:
        BenchError: the benchmark or a task does not exist, or the recording cannot be written.
    """
    async with anyio.create_task_group() as tasks:
        clients = Clients(tasks, idle=idle)
        try:
            with anyio.CancelScope() as serving:
                tasks.start_soon(stop_on_signal, serving)
                state = await clients.join(benchmark, None, choice, "stdio")
                async with standard_streams() as (source, sink):
                    await RecordedConnection(state.client, source, sink).run()
                await clients.leave(state)
        finally:
            await clients.end_tasks()
            await clients.close()
        tasks.cancel_scope.cancel()
