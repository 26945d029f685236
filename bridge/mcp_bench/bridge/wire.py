"""One episode's wire: the Unix socket its agent connects to, and what passes over it.

A peer gets through with the episode's token, and only if it descends from the launched agent.
Until the first tool call the agent may connect again (some start their servers twice); later
connections are refused, so that nobody starts a fresh session in the middle of an attempt.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import anyio
from anyio.abc import ObjectStream, SocketStream, TaskStatus
from anyio.streams.buffered import BufferedByteReceiveStream
from anyio.streams.stapled import StapledObjectStream

from mcp_bench.bridge.episode_folder import EpisodeFolder
from mcp_bench.bridge.peer import descends, peer_pid
from mcp_bench.bridge.tap import pump
from mcp_bench.recorder.body import Body
from mcp_bench.recorder.recording import Recording
from mcp_bench.recorder.wire import Frame
from mcp_bench.servers.mcp_server import WorldSession, serve

SERVER_NAME = "bench"
HANDSHAKES = {"initialize", "server/discover"}
TOKEN_SECONDS = 10.0
IN_FLIGHT_SECONDS = 30.0
"""How long calls that are under way when the agent ends may take to finish."""
MAX_CONNECTIONS = 32
"""Open at once in one episode, refused ones included: an agent cannot use up the referee's files."""


@dataclass
class Seen:
    """What passed over the wire, as far as the episode's life cycle depends on it."""

    connections: int = 0
    refused: int = 0
    calls: int = 0
    answered: set[str] = field(default_factory=set)
    """Methods that got a result."""

    @property
    def ready(self) -> bool:
        """Whether the agent had the tools before it: a handshake and a `tools/list` were answered."""
        return bool(self.answered & HANDSHAKES) and "tools/list" in self.answered


class Wire:
    """Serves one world to one agent, and records every byte of it."""

    def __init__(
        self,
        episode: str,
        folder: EpisodeFolder,
        session: WorldSession,
        recording: Recording,
        *,
        root: int,
    ) -> None:
        self.seen = Seen()
        self._episode = episode
        self._folder = folder
        self._session = session
        self._recording = recording
        self._root = root
        self._closing = False
        self._open: dict[tuple[int, str | None], str | None] = {}
        self._peers = 0
        self._change = anyio.Event()

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Accept the agent's connections until cancelled."""
        async with await anyio.create_unix_listener(self._folder.socket, mode=0o600) as listener:
            task_status.started()
            await listener.serve(self._handle)

    async def drain(self) -> None:
        """Refuse new connections and let the calls under way finish, for a bounded time."""
        self._closing = True
        await self._answered(lambda _, method: method == "tools/call")

    async def _answered(self, awaited: Callable[[int, str | None], bool]) -> None:
        """Wait, for a bounded time, until no open request (connection, method) is an awaited one."""
        with anyio.move_on_after(IN_FLIGHT_SECONDS):
            while any(awaited(number, method) for (number, _), method in self._open.items()):
                await self._change.wait()

    def _changed(self) -> None:
        """Wake all who wait for requests to be settled: each change has an event of its own."""
        self._change.set()
        self._change = anyio.Event()

    async def _handle(self, client: SocketStream) -> None:
        self._peers += 1
        try:
            await self._serve_peer(client)
        finally:
            self._peers -= 1

    async def _serve_peer(self, client: SocketStream) -> None:
        async with client:
            if self._peers > MAX_CONNECTIONS:
                self.seen.refused += 1
                return
            source = BufferedByteReceiveStream(client)
            if self._closing or self.seen.calls or not await self._admit(client, source):
                self.seen.refused += 1
                return
            self.seen.connections += 1
            number = self.seen.connections
            try:
                await self._relay(client, source, number)
            finally:
                for key in [key for key in self._open if key[0] == number]:
                    del self._open[key]
                self._changed()
                self._recording.close_connection(self._episode, number)

    async def _admit(self, client: SocketStream, source: BufferedByteReceiveStream) -> bool:
        with anyio.move_on_after(TOKEN_SECONDS):
            try:
                token = await source.receive_until(b"\n", 256)
            except (anyio.DelimiterNotFound, anyio.IncompleteRead, anyio.BrokenResourceError):
                return False
            return hmac.compare_digest(token, self._folder.token.encode()) and descends(
                peer_pid(client), self._root
            )
        return False

    async def _relay(self, client: SocketStream, source: BufferedByteReceiveStream, number: int) -> None:
        tap_end, server_end = byte_stream_pair()

        async def run_server() -> None:
            async with server_end:
                await serve(
                    self._session,
                    server_end,
                    name=SERVER_NAME,
                    on_execute=lambda rpc_id: self._recording.mark_executed(self._episode, number, rpc_id),
                )

        async def upstream() -> None:
            await pump(source, tap_end, partial(self._from_agent, number))
            # At the end of its input a server drops the requests it has not answered.
            await self._answered(lambda at, _: at == number)
            await tap_end.send_eof()

        async with anyio.create_task_group() as tasks, tap_end:
            tasks.start_soon(run_server)
            tasks.start_soon(upstream)
            await pump(tap_end, client, partial(self._from_server, number))
            tasks.cancel_scope.cancel()  # the server is done, or the agent reads no more

    async def _from_agent(self, number: int, lines: Sequence[Body]) -> None:
        for frame in await self._recording.store(self._episode, number, "client", lines):
            for message in frame.items or (frame,):
                self._asked(number, message)

    def _asked(self, number: int, message: Frame) -> None:
        if message.cancels is not None:  # nobody will answer it
            self._open.pop((number, message.cancels), None)
            self._changed()
        if message.kind == "request":
            self._open[number, message.rpc_id] = message.method
            self.seen.calls += message.is_call

    async def _from_server(self, number: int, lines: Sequence[Body]) -> None:
        for frame in await self._recording.store(self._episode, number, "server", lines):
            for message in frame.items or (frame,):
                if message.kind == "response":
                    method = self._open.pop((number, message.rpc_id), None)
                    if message.outcome != "rpc_error" and method not in self.seen.answered:
                        self.seen.answered.add(method or "")
                        if self.seen.ready:
                            self._folder.mark_ready()
                    self._changed()


def byte_stream_pair() -> tuple[ObjectStream[bytes], ObjectStream[bytes]]:
    """Return two connected in-memory byte streams; a sender waits until the other side reads."""
    to_right, from_left = anyio.create_memory_object_stream[bytes](0)
    to_left, from_right = anyio.create_memory_object_stream[bytes](0)
    return StapledObjectStream(to_right, from_right), StapledObjectStream(to_left, from_left)
