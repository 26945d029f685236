"""Assigns HTTP requests to clients, and records their messages.

Up to protocol version 2025-11-25, each session (`Mcp-Session-Id`) at the plain URL is a separate client.
Requests of 2026-07-28 have no session: at the plain URL they all share one client. At `.../mcp/NAME`, all
requests share one client in every protocol version.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import cast

import anyio
from mcp_types import INVALID_REQUEST
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from mcp_bench.bridge.http.access import client_of
from mcp_bench.bridge.http.recorded import Headers, Recorded
from mcp_bench.bridge.http.sessions import session_id
from mcp_bench.bridge.interactive.clients import Clients, ClientState
from mcp_bench.bridge.interactive.open_task import ClientInfo
from mcp_bench.bridge.interactive.routes import Routes
from mcp_bench.bridge.interactive.run import TaskChoice
from mcp_bench.bridge.tap.traffic import asked_in, client_info
from mcp_bench.recorder.frames.body import Body, LargeBody
from mcp_bench.recorder.records import Direction
from mcp_bench.servers.errors import BenchError

logger = logging.getLogger(__name__)

EXCHANGE = "mcp_bench.exchange"
"""Key of the ASGI scope that holds the request's `HttpExchange`."""
VERSION = b"mcp-protocol-version"
NAME = re.compile(r"[A-Za-z0-9._~-]{1,64}")
SWEEP_SECONDS = 30.0


@dataclass(frozen=True)
class Address:
    """Benchmark and client name in the path of a URL."""

    benchmark: str
    name: str | None


AddressOf = Callable[[str], Address | None]
"""Parses a path. Returns None for an unknown one."""


@dataclass(eq=False)
class HttpSession:
    """One connection in the recording: an MCP session, or a single request without a session."""

    state: ClientState
    own: bool
    """Whether the client ends with this session."""
    number: int
    routes: Routes
    address: Address
    info: ClientInfo | None = None
    exchanges: int = 0
    """Number of running HTTP exchanges."""
    left: bool = False
    """Whether the client gave up its only request. Without a session, this cancels the request."""
    last_used: float = field(default_factory=time.monotonic)

    def close(self) -> None:
        """Settle the open calls of this session in the recording."""
        for episode in self.routes.close():
            self.state.client.run.recording.close_connection(episode, self.number, cancelled=self.left)


class HttpExchange:
    """One request and its response. Implements `recorded.Exchange`."""

    def __init__(self, session: HttpSession, on_session: Callable[[str, HttpSession], None]) -> None:
        """`on_session` gets the id of the session that the response starts."""
        self.session = session
        self.status = 0
        self.left = False
        self._on_session = on_session
        self._asked: set[str | None] = set()

    async def store(self, direction: Direction, bodies: Sequence[Body]) -> None:
        session = self.session
        if direction == "client" and session.info is None:
            reported = [client_info(body) for body in bodies if not isinstance(body, LargeBody)]
            session.info = next((info for info in reported if info is not None), None)
        answered = partial(session.routes.from_server, among=self._asked)
        route = session.routes.from_client if direction == "client" else answered
        frames = await session.state.client.run.recording.store(route, session.number, direction, bodies)
        if direction == "client":
            self._asked |= asked_in(frames)

    def answered(self, status: int, headers: Headers) -> None:
        self.status = status
        given = session_id(headers)
        if given is not None and status < 400:
            self._on_session(given, self.session)

    def close(self, left: bool) -> None:
        self.left = left  # `HttpSessions` closes the session


class HttpSessions:
    """ASGI middleware that assigns each request to a session, and records it."""

    def __init__(
        self, app: ASGIApp, clients: Clients, address_of: AddressOf, choice: TaskChoice, *, max_sessions: int
    ) -> None:
        self._recorded = Recorded(app, lambda scope: cast(HttpExchange, scope[EXCHANGE]))
        self._clients = clients
        self._address_of = address_of
        self._choice = choice
        self._max_sessions = max_sessions
        self._sessions: dict[str, HttpSession] = {}
        self._named: dict[Address, ClientState] = {}
        self._lock = anyio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        address = self._address_of(scope["path"])
        given = session_id(scope["headers"])
        try:
            if address is None:
                raise BenchError("there is no MCP server at this path")
            if given is not None and not self._is_of(given, address):
                logger.warning("refused %s: an unknown session, or one of another URL", client_of(scope))
                raise BenchError("Session not found")
            session = self._sessions[given] if given else await self._new_session(address, scope["headers"])
        except BenchError as error:
            body = {"jsonrpc": "2.0", "id": None, "error": {"code": INVALID_REQUEST, "message": str(error)}}
            status = 503 if isinstance(error, FullError) else 404
            await JSONResponse(body, status)(scope, receive, send)
            return
        exchange = scope[EXCHANGE] = HttpExchange(session, self._begin)
        session.exchanges += 1
        try:
            with self._clients.request():
                await self._recorded(scope, receive, send)
        finally:
            session.exchanges -= 1
            session.last_used = time.monotonic()
            gone = exchange.status == 404 or (scope["method"] == "DELETE" and exchange.status < 300)
            if given is None:
                if session not in self._sessions.values():
                    session.left = exchange.left
                    await self._leave(session)
            elif gone and self._sessions.pop(given, None) is not None:
                await self._leave(session)

    async def sweep(self, idle: float) -> None:
        """Until cancelled, end sessions that were unused for `idle` seconds plus `SWEEP_SECONDS`."""
        while True:
            await anyio.sleep(min(idle, SWEEP_SECONDS))
            now = time.monotonic()
            for identifier, session in list(self._sessions.items()):
                if not session.exchanges and now - session.last_used > idle + SWEEP_SECONDS:
                    del self._sessions[identifier]
                    await self._leave(session)

    def close(self) -> None:
        """Settle all open calls in the recording. No request may arrive any more."""
        for session in self._sessions.values():
            session.close()

    def _is_of(self, identifier: str, address: Address) -> bool:
        session = self._sessions.get(identifier)
        return session is not None and session.address == address

    def _begin(self, identifier: str, session: HttpSession) -> None:
        self._sessions[identifier] = session

    async def _new_session(self, address: Address, headers: Headers) -> HttpSession:
        """Return a session of the client that all requests to this URL share, or of a new client.

        Raises:
            BenchError: there are too many clients, or the benchmark does not exist.
        """
        version = next((value.decode("latin-1") for name, value in headers if name == VERSION), None)
        own = address.name is None and (version is None or version in HANDSHAKE_PROTOCOL_VERSIONS)
        async with self._lock:
            state = None if own else self._named.get(address)
            if state is None:
                if len(self._clients.states) >= self._max_sessions:
                    raise FullError(f"{self._max_sessions} clients are in use already")
                name = address.name or ("http" if own else "default")
                token = None if own else f"url {address.name or ''}"
                state = await self._clients.join(address.benchmark, token, self._choice, name)
                if not own:  # keep it: without a session, no request says that it is the last one
                    self._named[address] = state
        number = state.client.run.next_connection()
        return HttpSession(state, own, number, Routes(number, lambda: state.client.task), address)

    async def _leave(self, session: HttpSession) -> None:
        session.close()
        if session.own:
            await self._clients.leave(session.state)


class FullError(BenchError):
    """The limit of clients is reached."""


def one_benchmark(benchmark: str) -> AddressOf:
    """Serve a benchmark at `/mcp`, and named clients of it at `/mcp/NAME`."""
    return lambda path: _address(benchmark, path.strip("/").split("/"))


def every_benchmark(path: str) -> Address | None:
    """Serve each benchmark at `/BENCHMARK/mcp`, and named clients of it at `/BENCHMARK/mcp/NAME`."""
    benchmark, *rest = path.strip("/").split("/")
    return _address(benchmark, rest)


def _address(benchmark: str, parts: list[str]) -> Address | None:
    match parts:
        case ["mcp"]:
            return Address(benchmark, None)
        case ["mcp", name] if NAME.fullmatch(name):
            return Address(benchmark, name)
    return None
