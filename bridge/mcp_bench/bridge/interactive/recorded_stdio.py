"""One connection of a client, as lines on a byte stream: all of it recorded."""

from __future__ import annotations

from collections.abc import Sequence

import anyio
from anyio.abc import AnyByteReceiveStream, AnyByteSendStream

from mcp_bench.bridge.interactive.client import Client, ClientTools
from mcp_bench.bridge.interactive.open_task import IN_FLIGHT_SECONDS, ClientInfo
from mcp_bench.bridge.interactive.routes import Routes
from mcp_bench.bridge.tap.client_info import client_info
from mcp_bench.bridge.tap.pump import pump
from mcp_bench.recorder.frames.body import Body, LargeBody
from mcp_bench.servers.connection import MAX_LINE, Connection
from mcp_bench.servers.lines import UnfinishedLine

SERVER_NAME = "bench"


class RecordedConnection:
    """Serves one connection of a client. The client and the streams are the caller's to close."""

    def __init__(self, client: Client, source: AnyByteReceiveStream, sink: AnyByteSendStream) -> None:
        self.info: ClientInfo | None = None
        """Who is at the other end, as soon as it has told."""
        self._source = source
        self._sink = sink
        self._recording = client.run.recording
        self._number = client.run.next_connection()
        self._session = ClientTools(client, self._number, lambda: self.info)
        self._routes = Routes(self._number, lambda: client.task)
        self._over = anyio.Event()

    async def run(self) -> None:
        """Serve until the client is gone; what it asked before is answered.

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
        feeder = _Feeder(connection)
        await pump(self._source, feeder, self._from_client)
        await feeder.end()
        with anyio.move_on_after(IN_FLIGHT_SECONDS):
            await self._routes.answered()
        self._over.set()

    async def _from_client(self, lines: Sequence[Body]) -> None:
        if self.info is None:
            told = [client_info(line) for line in lines if not isinstance(line, LargeBody)]
            self.info = next((info for info in told if info is not None), None)
        await self._recording.store(self._routes.from_client, self._number, "client", lines)

    async def _deliver(self, line: bytes) -> None:
        await self._recording.store(self._routes.from_server, self._number, "server", [line])
        try:
            await self._sink.send(line)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            self._over.set()  # the client reads no more
            raise


class _Feeder:
    """Gives a connection the lines in a stream of chunks."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._line = UnfinishedLine(MAX_LINE)

    async def send(self, item: bytes, /) -> None:
        first, *rest = item.split(b"\n")
        self._line.add(first)
        for part in rest:
            await self._connection.receive(self._line.take())
            self._line.add(part)

    async def end(self) -> None:
        if self._line:
            await self._connection.receive(self._line.take())
