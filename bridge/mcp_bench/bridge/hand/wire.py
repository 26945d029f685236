"""A client's connection to its entry, as lines on a byte stream: all of it recorded."""

from __future__ import annotations

from collections.abc import Sequence

import anyio
from anyio.abc import AnyByteReceiveStream, AnyByteSendStream

from mcp_bench.bridge.client_info import client_info
from mcp_bench.bridge.hand.entry import Entry, EntrySession
from mcp_bench.bridge.hand.open_task import IN_FLIGHT_SECONDS, Client
from mcp_bench.bridge.hand.routes import Routes
from mcp_bench.bridge.tap import pump
from mcp_bench.bridge.wire import byte_stream_pair
from mcp_bench.recorder.body import Body, LargeBody
from mcp_bench.servers.mcp_server import serve

SERVER_NAME = "bench"


class Wire:
    """Serves one connection of an entry. The entry and the streams are the caller's to close."""

    def __init__(self, entry: Entry, source: AnyByteReceiveStream, sink: AnyByteSendStream) -> None:
        self.client: Client | None = None
        """Who is at the other end, as soon as it has told."""
        self._source = source
        self._sink = sink
        self._recording = entry.run.recording
        self._number = entry.run.next_connection()
        self._session = EntrySession(entry, self._number, lambda: self.client)
        self._routes = Routes(self._number, lambda: entry.task)

    async def run(self) -> None:
        """Serve until the client is gone; what it asked before is answered.

        Raises:
            StorageError: the recording cannot be written.
        """
        tap_end, server_end = byte_stream_pair()

        async def run_server() -> None:
            async with server_end:
                await serve(
                    self._session,
                    server_end,
                    name=SERVER_NAME,
                    on_execute=self._session.executes,
                    prompts=self._session,
                )

        async def upstream() -> None:
            await pump(self._source, tap_end, self._from_client)
            # at the end of its input a server drops the requests it has not answered
            with anyio.move_on_after(IN_FLIGHT_SECONDS):
                await self._routes.answered()
            await tap_end.send_eof()

        try:
            async with anyio.create_task_group() as tasks, tap_end:
                tasks.start_soon(run_server)
                tasks.start_soon(upstream)
                await pump(tap_end, self._sink, self._from_server)
                tasks.cancel_scope.cancel()  # the server is done, or the client reads no more
        finally:
            for episode in self._routes.close():
                self._recording.close_connection(episode, self._number)

    async def _from_client(self, lines: Sequence[Body]) -> None:
        if self.client is None:
            told = [client_info(line) for line in lines if not isinstance(line, LargeBody)]
            self.client = next((client for client in told if client is not None), None)
        await self._recording.store(self._routes.from_client, self._number, "client", lines)

    async def _from_server(self, lines: Sequence[Body]) -> None:
        await self._recording.store(self._routes.from_server, self._number, "server", lines)
