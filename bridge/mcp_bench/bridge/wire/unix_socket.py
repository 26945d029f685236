"""An episode's wire over a Unix socket, which the agent connects to through the shim.

A peer must show the episode's token and descend from the launched agent. Until its first tool call, the agent
may connect again, because some agents start their servers twice. Later connections are refused: no session
may start afresh in the middle of an attempt, unless the referee itself launches the agent again, because its
user has spoken. Each refusal is flagged.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import anyio
from anyio.abc import SocketAttribute, SocketListener, SocketStream, TaskStatus
from anyio.streams.buffered import BufferedByteReceiveStream
from mcp_types import RequestId

from mcp_bench.bridge.tap.pump import Lines, pump
from mcp_bench.bridge.tap.traffic import Traffic
from mcp_bench.bridge.wire.admission import Gate, describe_token, refusal, shown_token
from mcp_bench.bridge.wire.agent_stream import AgentStream
from mcp_bench.bridge.wire.backend import SERVER_NAME, Backend
from mcp_bench.bridge.wire.episode_folder import EpisodeFolder
from mcp_bench.bridge.wire.peer import ancestors, has_hung_up, peer_of
from mcp_bench.plugins.contracts import McpServer
from mcp_bench.recorder.frames.body import Body
from mcp_bench.recorder.records import FlagKind, Termination
from mcp_bench.recorder.store.recording import Recording

MAX_CONNECTIONS = 32
"""Limit of open connections in one episode, including refused ones. It protects the referee's descriptors."""


class UnixSocketWire:
    """Connect one agent to one backend, and record every byte."""

    def __init__(self, gate: Gate, folder: EpisodeFolder, backend: Backend, recording: Recording) -> None:
        """Set up a wire for the peers that `gate` admits."""
        self.gate = gate
        self.traffic = Traffic(on_ready=folder.mark_ready)
        self.seen = self.traffic.seen
        self.server = McpServer(
            SERVER_NAME, folder.server_command, backend.tools, arguments=backend.arguments
        )
        """The server, for the agent's configuration."""
        self._episode = gate.episode
        self._folder = folder
        self._backend = backend
        self._recording = recording
        self._closing = False
        self._peers = 0
        self._earlier_calls = 0
        self._listener: SocketListener | None = None

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Accept the agent's connections until cancelled. The socket stays, for the agent's next launch."""
        if self._listener is None:
            self._listener = await anyio.create_unix_listener(self._folder.socket, mode=0o600)
        task_status.started()
        await self._listener.serve(self._handle)

    async def close(self) -> None:
        """Close the socket."""
        if self._listener is not None:
            with anyio.CancelScope(shield=True):
                await self._listener.aclose()

    async def drain(self) -> None:
        """Refuse new connections, and wait for a bounded time until running calls have finished."""
        self._closing = True
        await self.traffic.calls_settled()

    def reopen(self) -> None:
        """Let the agent connect again, for another turn of its user. No process of it must be left."""
        self._closing, self._earlier_calls = False, self.seen.calls

    @property
    def fault(self) -> str | None:
        """Failure of the backend, if any."""
        return self._backend.fault

    async def cut_off(self) -> Termination:
        """Return why the attempt must end, once it must."""
        return await self._backend.cut_off()

    async def _handle(self, client: SocketStream) -> None:
        self._peers += 1
        try:
            await self._serve_peer(client)
        finally:
            self._peers -= 1

    async def _serve_peer(self, client: SocketStream) -> None:
        async with client:
            source = BufferedByteReceiveStream(client)
            if not await self._admitted(client, source):
                self.seen.refused += 1
                return
            self.seen.connections += 1
            number = self.seen.connections
            stream = await AgentStream.over(client.extra(SocketAttribute.raw_socket), source.buffer)
            try:
                await self._relay(stream, number)
            finally:
                stream.close()
                self.traffic.closed(number)
                self._recording.close_connection(self._episode, number)

    async def _admitted(self, client: SocketStream, source: BufferedByteReceiveStream) -> bool:
        with peer_of(client) as peer:
            line, sender = ancestors(peer), str(peer)
            if self._peers > MAX_CONNECTIONS:
                self.gate.flag("flood", line, f"{sender} is one of more than {MAX_CONNECTIONS} connections")
                return False
            shown = await shown_token(source)
            if shown is None or (not line and has_hung_up(client)):
                return False  # the peer was killed while it started: not an attempt
            kind: FlagKind | None = refusal(shown, self.gate.token, self.gate.root, line)
        if kind is not None:
            self.gate.flag(kind, line, f"{sender} showed {describe_token(shown)}")
        elif self._closing or self.seen.calls > self._earlier_calls:
            kind = "late_reconnect"
            when = "while the episode was closing" if self._closing else "after the first tool call"
            self.gate.flag(kind, line, f"{sender} connected {when}")
        return kind is None

    async def _relay(self, client: AgentStream, number: int) -> None:
        answers, over = Lines(), anyio.Event()

        async def deliver(chunk: bytes) -> None:
            if frames := answers.feed(chunk):
                await self._from_server(number, frames)
            try:
                await client.send(chunk)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                over.set()  # the agent reads no more
                raise

        def executed(rpc_id: RequestId) -> None:
            self._recording.mark_executed(self._episode, number, rpc_id)

        async with self._backend.connect(deliver, executed) as backend, anyio.create_task_group() as tasks:

            async def upstream() -> None:
                await pump(client, backend, partial(self._from_agent, number))
                await backend.flush()
                if self._backend.answers_before_eof:
                    await self.traffic.settled(lambda at, _: at == number)
                await backend.send_eof()

            async def downstream() -> None:
                await backend.ended()
                over.set()

            tasks.start_soon(upstream)
            tasks.start_soon(downstream)
            await over.wait()
            tasks.cancel_scope.cancel()
        if rest := answers.rest():
            await self._from_server(number, [rest])

    async def _from_agent(self, number: int, lines: Sequence[Body]) -> None:
        frames = await self._recording.store(self._episode, number, "client", lines)
        self.traffic.from_client(number, frames)

    async def _from_server(self, number: int, lines: Sequence[Body]) -> None:
        frames = await self._recording.store(self._episode, number, "server", lines)
        self.traffic.from_server(number, frames)
