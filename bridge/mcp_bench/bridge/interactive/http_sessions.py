"""Which entry an HTTP request belongs to, and how its messages are recorded.

In the handshake era a session (`Mcp-Session-Id`) at the plain URL is an entry of its own. Requests of
2026-07-28 have no session: at the plain URL they share one entry, and whoever wants one of its own
puts a name behind it: `.../mcp/NAME` is one entry for all who use that URL, in both eras.
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
from mcp_bench.bridge.interactive.clients import Desk, Guest
from mcp_bench.bridge.interactive.open_task import Client
from mcp_bench.bridge.interactive.routes import Routes
from mcp_bench.bridge.interactive.task_queue import TaskChoice
from mcp_bench.bridge.tap.client_info import client_info
from mcp_bench.recorder.frames.body import Body, LargeBody
from mcp_bench.recorder.records import Direction
from mcp_bench.servers.errors import BenchError

logger = logging.getLogger(__name__)

EXCHANGE = "mcp_bench.exchange"
"""Key of the ASGI scope that holds the request's `SeatExchange`."""
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
class Seat:
    """One recorder connection of an entry: a session, or a request without one."""

    guest: Guest
    own: bool
    """Whether the entry ends with it."""
    number: int
    routes: Routes
    address: Address
    client: Client | None = None
    exchanges: int = 0
    """Under way."""
    left: bool = False
    """Its only request was given up by its client before the answer: without a session that cancels."""
    last_used: float = field(default_factory=time.monotonic)

    def close(self) -> None:
        """Settle what it leaves open in the recording."""
        for episode in self.routes.close():
            self.guest.entry.run.recording.close_connection(episode, self.number, cancelled=self.left)


class SeatExchange:
    """One request and its response, for `Recorded`."""

    def __init__(self, seat: Seat, on_session: Callable[[str, Seat], None]) -> None:
        """`on_session` is told of the session that the response begins."""
        self.seat = seat
        self.status = 0
        self.left = False
        self._on_session = on_session

    async def store(self, direction: Direction, bodies: Sequence[Body]) -> None:
        seat = self.seat
        if direction == "client" and seat.client is None:
            told = [client_info(body) for body in bodies if not isinstance(body, LargeBody)]
            seat.client = next((client for client in told if client is not None), None)
        route = seat.routes.from_client if direction == "client" else seat.routes.from_server
        await seat.guest.entry.run.recording.store(route, seat.number, direction, bodies)

    def answered(self, status: int, headers: Headers) -> None:
        self.status = status
        session = header(headers, SESSION)
        if session is not None and status < 400:
            self._on_session(session, self.seat)

    def close(self, left: bool) -> None:
        self.left = left  # the seat is closed by whoever gave it


class Seats:
    """ASGI middleware that gives each request its seat, and records it."""

    def __init__(
        self, app: ASGIApp, desk: Desk, address_of: AddressOf, choice: TaskChoice, *, max_sessions: int
    ) -> None:
        self._recorded = Recorded(app, lambda scope: cast(SeatExchange, scope[EXCHANGE]))
        self._desk = desk
        self._address_of = address_of
        self._choice = choice
        self._max_sessions = max_sessions
        self._sessions: dict[str, Seat] = {}
        self._named: dict[Address, Guest] = {}
        self._turn = anyio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        address = self._address_of(scope["path"])
        session = header(scope["headers"], SESSION)
        try:
            if address is None:
                raise BenchError("there is nothing at this path")
            if session is not None and not self._is_of(session, address):
                logger.warning("refused %s: a session that is none, or of another URL", client_of(scope))
                raise BenchError("Session not found")
            seat = self._sessions[session] if session else await self._new_seat(address, scope["headers"])
        except BenchError as error:
            body = {"jsonrpc": "2.0", "id": None, "error": {"code": INVALID_REQUEST, "message": str(error)}}
            status = 503 if isinstance(error, FullError) else 404
            await JSONResponse(body, status)(scope, receive, send)
            return
        exchange = scope[EXCHANGE] = SeatExchange(seat, self._begin)
        seat.exchanges += 1
        try:
            await self._recorded(scope, receive, send)
        finally:
            seat.exchanges -= 1
            seat.last_used = time.monotonic()
            gone = exchange.status == 404 or (scope["method"] == "DELETE" and exchange.status < 300)
            if session is None:
                if seat not in self._sessions.values():
                    seat.left = exchange.left
                    await self._leave(seat)
            elif gone and self._sessions.pop(session, None) is not None:
                await self._leave(seat)

    async def sweep(self, idle: float) -> None:
        """Forget sessions that were not used for `idle` seconds and some more, until cancelled."""
        while True:
            await anyio.sleep(min(idle, SWEEP_SECONDS))
            now = time.monotonic()
            for session, seat in list(self._sessions.items()):
                if not seat.exchanges and now - seat.last_used > idle + SWEEP_SECONDS:
                    del self._sessions[session]
                    await self._leave(seat)

    def close(self) -> None:
        """Settle what is open in the recording; no request comes any more."""
        for seat in self._sessions.values():
            seat.close()

    def _is_of(self, session: str, address: Address) -> bool:
        seat = self._sessions.get(session)
        return seat is not None and seat.address == address

    def _begin(self, session: str, seat: Seat) -> None:
        self._sessions[session] = seat

    async def _new_seat(self, address: Address, headers: Headers) -> Seat:
        """Return a seat at the entry that is meant: one for all at this URL, or a new one.

        Raises:
            BenchError: there are too many, or no such benchmark.
        """
        version = header(headers, VERSION)
        own = address.name is None and (version is None or version in HANDSHAKE_PROTOCOL_VERSIONS)
        async with self._turn:
            guest = None if own else self._named.get(address)
            if guest is None:
                if len(self._desk.guests) >= self._max_sessions:
                    raise FullError(f"{self._max_sessions} entries are in use already")
                name = address.name or ("http" if own else "default")
                token = None if own else f"url {address.name or ''}"
                guest = await self._desk.join(address.benchmark, token, self._choice, name)
                if not own:  # stays: who has no session does not say goodbye
                    self._named[address] = guest
        number = guest.entry.run.next_connection()
        return Seat(guest, own, number, Routes(number, lambda: guest.entry.task), address)

    async def _leave(self, seat: Seat) -> None:
        seat.close()
        if seat.own:
            await self._desk.leave(seat.guest)


class FullError(BenchError):
    """No more entries are given."""


def header(headers: Headers, name: bytes) -> str | None:
    return next((value.decode("latin-1") for key, value in headers if key == name), None)


def one_benchmark(benchmark: str) -> AddressOf:
    """Serve a benchmark at `/mcp`, and named entries of it at `/mcp/NAME`."""
    return lambda path: _address(benchmark, path.strip("/").split("/"))


def every_benchmark(path: str) -> Address | None:
    """Serve each benchmark at `/BENCHMARK/mcp`, and named entries of it at `/BENCHMARK/mcp/NAME`."""
    benchmark, *rest = path.strip("/").split("/")
    return _address(benchmark, rest)


def _address(benchmark: str, parts: list[str]) -> Address | None:
    match parts:
        case ["mcp"]:
            return Address(benchmark, None)
        case ["mcp", name] if NAME.fullmatch(name):
            return Address(benchmark, name)
    return None
