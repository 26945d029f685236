"""Which client an HTTP request belongs to, and how its messages are recorded.

In the handshake era a session (`Mcp-Session-Id`) at the plain URL is a client of its own. Requests of
2026-07-28 have no session: at the plain URL they share one client, and whoever wants one of its own
puts a name behind it: `.../mcp/NAME` is one client for all who use that URL, in both eras.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import cast

import anyio
from mcp_types import INVALID_REQUEST
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from mcp_bench.bridge.http.access import client_of
from mcp_bench.bridge.http.recorded import Headers, Recorded
from mcp_bench.bridge.interactive.clients import Clients, ClientState
from mcp_bench.bridge.interactive.open_task import ClientInfo
from mcp_bench.bridge.interactive.routes import Routes
from mcp_bench.bridge.interactive.run import TaskChoice
from mcp_bench.bridge.tap.traffic import client_info
from mcp_bench.recorder.frames.body import Body, LargeBody
from mcp_bench.recorder.records import Direction
from mcp_bench.servers.errors import BenchError

logger = logging.getLogger(__name__)

EXCHANGE = "mcp_bench.exchange"
"""Key of the ASGI scope that holds the request's `HttpExchange`."""
SESSION = b"mcp-session-id"
VERSION = b"mcp-protocol-version"
NAME = re.compile(r"[A-Za-z0-9._~-]{1,64}")
SWEEP_SECONDS = 30.0


@dataclass(frozen=True)
class Address:
    """What a URL's path stands for."""

    benchmark: str
    name: str | None


AddressOf = Callable[[str], Address | None]
"""Reads a path; None where there is nothing."""


@dataclass(eq=False)
class HttpSession:
    """One recorder connection of a client: a session, or a request without one."""

    state: ClientState
    own: bool
    """Whether the client ends with it."""
    number: int
    routes: Routes
    address: Address
    info: ClientInfo | None = None
    exchanges: int = 0
    """Under way."""
    left: bool = False
    """Its only request was given up by its client before the answer: without a session that cancels."""
    last_used: float = field(default_factory=time.monotonic)

    def close(self) -> None:
        """Settle what it leaves open in the recording."""
        for episode in self.routes.close():
            self.state.client.run.recording.close_connection(episode, self.number, cancelled=self.left)


class HttpExchange:
    """One request and its response, for `Recorded`."""

    def __init__(self, session: HttpSession, on_session: Callable[[str, HttpSession], None]) -> None:
        """`on_session` is told of the session that the response begins."""
        self.session = session
        self.status = 0
        self.left = False
        self._on_session = on_session

    async def store(self, direction: Direction, bodies: Sequence[Body]) -> None:
        session = self.session
        if direction == "client" and session.info is None:
            told = [client_info(body) for body in bodies if not isinstance(body, LargeBody)]
            session.info = next((info for info in told if info is not None), None)
        route = session.routes.from_client if direction == "client" else session.routes.from_server
        await session.state.client.run.recording.store(route, session.number, direction, bodies)

    def answered(self, status: int, headers: Headers) -> None:
        self.status = status
        session_id = header(headers, SESSION)
        if session_id is not None and status < 400:
            self._on_session(session_id, self.session)

    def close(self, left: bool) -> None:
        self.left = left  # the session is closed by whoever gave it


class HttpSessions:
    """ASGI middleware that gives each request its session, and records it."""

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
        self._turn = anyio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        address = self._address_of(scope["path"])
        session_id = header(scope["headers"], SESSION)
        try:
            if address is None:
                raise BenchError("there is nothing at this path")
            if session_id is not None and not self._is_of(session_id, address):
                logger.warning("refused %s: a session that is none, or of another URL", client_of(scope))
                raise BenchError("Session not found")
            session = (
                self._sessions[session_id]
                if session_id
                else await self._new_session(address, scope["headers"])
            )
        except BenchError as error:
            body = {"jsonrpc": "2.0", "id": None, "error": {"code": INVALID_REQUEST, "message": str(error)}}
            status = 503 if isinstance(error, FullError) else 404
            await JSONResponse(body, status)(scope, receive, send)
            return
        exchange = scope[EXCHANGE] = HttpExchange(session, self._begin)
        session.exchanges += 1
        try:
            await self._recorded(scope, receive, send)
        finally:
            session.exchanges -= 1
            session.last_used = time.monotonic()
            gone = exchange.status == 404 or (scope["method"] == "DELETE" and exchange.status < 300)
            if session_id is None:
                if session not in self._sessions.values():
                    session.left = exchange.left
                    await self._leave(session)
            elif gone and self._sessions.pop(session_id, None) is not None:
                await self._leave(session)

    async def sweep(self, idle: float) -> None:
        """Forget sessions that were not used for `idle` seconds and some more, until cancelled."""
        while True:
            await anyio.sleep(min(idle, SWEEP_SECONDS))
            now = time.monotonic()
            for session_id, session in list(self._sessions.items()):
                if not session.exchanges and now - session.last_used > idle + SWEEP_SECONDS:
                    del self._sessions[session_id]
                    await self._leave(session)

    def close(self) -> None:
        """Settle what is open in the recording; no request comes any more."""
        for session in self._sessions.values():
            session.close()

    def _is_of(self, session_id: str, address: Address) -> bool:
        session = self._sessions.get(session_id)
        return session is not None and session.address == address

    def _begin(self, session_id: str, session: HttpSession) -> None:
        self._sessions[session_id] = session

    async def _new_session(self, address: Address, headers: Headers) -> HttpSession:
        """Return a session of the client that is meant: one for all at this URL, or a new one.

        Raises:
            BenchError: there are too many, or no such benchmark.
        """
        version = header(headers, VERSION)
        own = address.name is None and (version is None or version in HANDSHAKE_PROTOCOL_VERSIONS)
        async with self._turn:
            state = None if own else self._named.get(address)
            if state is None:
                if len(self._clients.states) >= self._max_sessions:
                    raise FullError(f"{self._max_sessions} clients are in use already")
                name = address.name or ("http" if own else "default")
                token = None if own else f"url {address.name or ''}"
                state = await self._clients.join(address.benchmark, token, self._choice, name)
                if not own:  # stays: who has no session does not say goodbye
                    self._named[address] = state
        number = state.client.run.next_connection()
        return HttpSession(state, own, number, Routes(number, lambda: state.client.task), address)

    async def _leave(self, session: HttpSession) -> None:
        session.close()
        if session.own:
            await self._clients.leave(session.state)


class FullError(BenchError):
    """No more clients are given."""


def header(headers: Headers, name: bytes) -> str | None:
    return next((value.decode("latin-1") for key, value in headers if key == name), None)


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
