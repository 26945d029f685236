"""An episode's wire to a server on streamable HTTP: a recording reverse proxy.

Each episode has its own proxy on 127.0.0.1, under a path that begins with the episode's token. Requests
without the token, or from a process that the agent did not start, get a 404. The proxy ends with the episode.
The agent may open any number of connections, but it can only use sessions that began in this episode.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from urllib.parse import unquote

import anyio
from anyio.abc import TaskStatus
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from mcp_bench.bridge.http.access import AccessRules, below_token
from mcp_bench.bridge.http.listen import bind, listen
from mcp_bench.bridge.http.recorded import Headers, Recorded
from mcp_bench.bridge.http.reverse_proxy import ReverseProxy
from mcp_bench.bridge.http.sessions import SESSION, session_id
from mcp_bench.bridge.http.tcp_peer import TcpPeers, owners
from mcp_bench.bridge.tap.traffic import Traffic, asked_in
from mcp_bench.bridge.wire.admission import Gate, describe_token, refusal
from mcp_bench.bridge.wire.backend import SERVER_NAME
from mcp_bench.plugins.contracts import McpServer
from mcp_bench.recorder.frames.body import Body
from mcp_bench.recorder.records import Direction, FlagKind, Termination
from mcp_bench.recorder.store.recording import MAX_FLAGS, Recording

LOOPBACK = "127.0.0.1"
MAX_BODY = 1 << 30
"""Limit in bytes of one request."""


class HttpWire:
    """Connect one agent to the server at a URL, and record every message.

    Use it as a context manager, because it holds a port.
    """

    def __init__(self, gate: Gate, url: str, recording: Recording, traffic: Traffic) -> None:
        """Take a port.

        Raises:
            WrongUseError: `url` is not the URL of a server.
            BenchError: no port is free.
        """
        self.traffic = traffic
        self.seen = traffic.seen
        self.gate = gate
        self.episode = gate.episode
        self.recording = recording
        self._proxy = ReverseProxy(url)
        self._listener = bind(LOOPBACK, 0)
        self._port: int = self._listener.getsockname()[1]
        self._peers = TcpPeers(self._port)
        self._numbers = itertools.count(1)
        self._refused: Counter[FlagKind] = Counter()
        self._sessions: dict[bytes, int] = {}
        self.exchanges: Counter[int] = Counter()
        """How many are open, by connection: an answer can come on each of them."""
        address = f"http://{LOOPBACK}:{self._port}/{gate.token}{self._proxy.path}"
        self.server = McpServer(SERVER_NAME, (), (), address)
        """The server, for the agent's configuration."""
        self.fault = None

    def __enter__(self) -> HttpWire:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Serve the agent until cancelled."""
        app = AccessRules(self._admit, LOOPBACK, self._port, max_body=MAX_BODY, on_refused=self._note_refused)
        async with self._proxy:
            self._recorded = Recorded(self._proxy, self._open, path=self._proxy.path)
            try:
                await listen(app, self._listener, drain=1, task_status=task_status)
            finally:
                for number in set(self._sessions.values()):
                    self.close(number)

    async def cut_off(self) -> Termination:
        """Wait forever: calls are not limited, and a server is never over."""
        await anyio.sleep_forever()
        raise AssertionError

    async def drain(self) -> None:
        """Wait, for a bounded time, until running calls have finished, or no answer can come any more."""
        await self.traffic.settled(
            lambda number, method: method == "tools/call" and self.exchanges[number] > 0
        )

    def close(self, number: int, *, cancelled: bool = False) -> None:
        self.traffic.closed(number)
        self.recording.close_connection(self.episode, number, cancelled=cancelled)

    async def _admit(self, scope: Scope, receive: Receive, send: Send) -> None:
        inner = below_token(scope, self.gate.token)
        if inner is None:
            self._note_wrong_token(scope)
        elif not await self._comes_from_agent(scope):
            inner = None
        elif (session := session_id(scope["headers"])) and session.encode("latin-1") not in self._sessions:
            self._note_refused(scope, "other_session", "a session of another episode")
            inner = None
        if inner is None:
            self.seen.refused += 1
            await PlainTextResponse("not found", 404)(scope, receive, send)
            return
        await self._recorded(inner, receive, send)

    async def _comes_from_agent(self, scope: Scope) -> bool:
        root = self.gate.root
        origin = "foreign" if root is None else await self._peers.origin(scope, root)
        if origin == "foreign":
            self._note_refused(scope, "foreign_peer", "a process that the agent did not start")
        return origin == "below"

    def _note_wrong_token(self, scope: Scope) -> None:
        """Flag a request that looks like an attempt to get in.

        Paths such as `/.well-known/...` are not flagged, because clients request them too.
        """
        shown, _, _ = scope["raw_path"].removeprefix(b"/").partition(b"/")
        bare = scope["path"] == unquote(self._proxy.path) != "/"
        if not bare and len(shown) != len(self.gate.token):
            return
        shown = b"" if bare else shown
        kind = refusal(shown, self.gate.token, None, ())
        assert kind is not None  # noqa: S101 - without ancestors, a peer is always refused
        self._note_refused(scope, kind, describe_token(shown))

    def _note_refused(self, scope: Scope, kind: FlagKind, detail: str) -> None:
        self._refused[kind] += 1
        if self._refused[kind] > MAX_FLAGS:  # further flags are dropped, and finding the process is slow
            return
        _, port = scope["client"]
        self.gate.flag(kind, owners(scope["client"], self._port), f"from port {port}: {detail}")

    def _open(self, scope: Scope) -> _Exchange:
        session = next((value for name, value in scope["headers"] if name == SESSION), None)
        return _Exchange(self, None if session is None else self._sessions.get(session))

    def new_connection(self) -> int:
        return next(self._numbers)

    def count_connections(self) -> None:
        """Update the number of connections. All requests without a session count as one."""
        self.seen.connections = max(1, len(self._sessions))

    def remember(self, session: str, number: int) -> None:
        """Assign later requests of a session to the connection in which it began."""
        if session.encode("latin-1") not in self._sessions:
            self._sessions[session.encode("latin-1")] = number


class _Exchange:
    """One request and its response, in a session or as a separate connection."""

    def __init__(self, wire: HttpWire, number: int | None) -> None:
        self._wire = wire
        self._alone = number is None
        self._number = wire.new_connection() if number is None else number
        wire.exchanges[self._number] += 1
        self._asked: set[str | None] = set()

    async def store(self, direction: Direction, bodies: Sequence[Body]) -> None:
        self._wire.count_connections()
        frames = await self._wire.recording.store(self._wire.episode, self._number, direction, bodies)
        if direction == "client":
            self._asked |= asked_in(frames)
            self._wire.traffic.from_client(self._number, frames)
        else:
            self._wire.traffic.from_server(self._number, frames, self._asked)

    def answered(self, status: int, headers: Headers) -> None:
        session = session_id(headers)
        if self._alone and session is not None and status < 400:
            self._alone = False
            self._wire.remember(session, self._number)

    def close(self, left: bool) -> None:
        self._wire.exchanges[self._number] -= 1
        self._wire.traffic.look_again()
        if self._alone:  # without a session, a client cancels by disconnecting (2026-07-28)
            self._wire.close(self._number, cancelled=left)
