"""Which connection, and which episode, an HTTP exchange belongs to.

All exchanges of one session (`Mcp-Session-Id`, 2025-03-26 to 2025-11-25) are one connection: an
answer may come on another exchange than its call, after a stream broke. A request without a session
(2026-07-28, and servers that keep none) is a connection of its own, because ids of different
clients may coincide.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Protocol

from starlette.types import Scope

from mcp_bench.bridge.http.recorded import Headers
from mcp_bench.recorder.frames import jsonrpc
from mcp_bench.recorder.frames.body import Body
from mcp_bench.recorder.records import Direction
from mcp_bench.recorder.store.recording import Recording

SESSION = b"mcp-session-id"
CONNECTION = "mcp_bench.connection"
"""Key of the ASGI scope that holds the number of the recorder's connection."""


class Episodes(Protocol):
    """Who decides what the messages of a session are part of. None: they are stored outside any."""

    def opened(self, session: str, handshake: Body) -> None:
        """A server has begun a session; `handshake` is the request that asked for it, or the first one that
        came of a session that is older than this recording."""
        ...

    def current(self, session: str) -> str | None:
        """Return the episode of a session's messages now."""
        ...

    def without_session(self, request: Body) -> str | None:
        """Return the episode of a request that belongs to no session, and of what answers it."""
        ...

    def closed(self, session: str, *, unknown: bool = False) -> None:
        """A session was deleted, or its server knows it no longer. `unknown`: it never did, as far as can be
        seen."""
        ...


class SessionExchanges:
    """Opens exchanges for `Recorded`. One for a recording: it numbers the connections."""

    def __init__(self, recording: Recording, episodes: Episodes) -> None:
        self.recording = recording
        self.episodes = episodes
        self.connections: dict[str, int] = {}
        """Open sessions."""
        self._adopted: set[str] = set()
        """Those that began before we came, until their server shows that it knows them."""
        self._numbers = itertools.count(1)

    def __call__(self, scope: Scope) -> SessionExchange:
        session = session_id(scope["headers"])
        number = self.connections.get(session or "") or next(self._numbers)
        scope[CONNECTION] = number
        self.recording.connected(None, number, "tcp", session)
        return SessionExchange(self, scope["method"], session, number)

    def begin(self, session: str, number: int, handshake: Body) -> None:
        self.episodes.opened(session, handshake)
        self.connections[session] = number

    def adopt(self, session: str, number: int, request: Body) -> int:
        """Take up a session that its server began before we came, if it is one: it is not mixed with any
        other. Return the number of its connection."""
        if session not in self.connections:
            self.begin(session, number, request)
            self._adopted.add(session)
        return self.connections[session]

    def accepted(self, session: str) -> None:
        """The server knows the session."""
        self._adopted.discard(session)

    def end(self, session: str) -> None:
        """Settle what the session left open; unknown sessions are none."""
        number = self.connections.pop(session, None)
        if number is not None:
            if episode := self.episodes.current(session):
                self.recording.close_connection(episode, number)
            self.episodes.closed(session, unknown=session in self._adopted)
            self._adopted.discard(session)

    def end_all(self) -> None:
        for session in list(self.connections):
            self.end(session)


def session_id(headers: Headers) -> str | None:
    return next((value.decode("latin-1") for name, value in headers if name == SESSION), None)


class SessionExchange:
    """One request and its response."""

    def __init__(self, owner: SessionExchanges, method: str, session: str | None, number: int) -> None:
        self._owner = owner
        self._method = method
        self._session = session
        self._number = number
        self._handshake: Body | None = None
        self._episode: str | None = None
        self._over = False

    async def store(self, direction: Direction, bodies: Sequence[Body]) -> None:
        if self._session is not None:
            if direction == "client":
                self._number = self._owner.adopt(self._session, self._number, bodies[0])
            self._episode = self._owner.episodes.current(self._session)
        elif direction == "client":
            (request,) = bodies  # a body is one frame
            if isinstance(request, bytes) and jsonrpc.parse(request).method == "initialize":
                self._handshake = request
            else:
                self._episode = self._owner.episodes.without_session(request)
        await self._owner.recording.store(self._episode, self._number, direction, bodies)

    def answered(self, status: int, headers: Headers) -> None:
        given = session_id(headers)
        if self._handshake is not None and given is not None and status < 400:
            self._session = given
            self._owner.begin(given, self._number, self._handshake)
        if self._session is not None and status < 400:
            if self._method == "GET":  # a stream: it has no message of the client
                self._number = self._owner.adopt(self._session, self._number, b"")
            self._owner.accepted(self._session)
        # a server that knows the session no longer says 404
        self._over = status == 404 or (self._method == "DELETE" and status < 300)

    def close(self, left: bool) -> None:
        if self._session is None:
            if self._episode is not None:  # without a session, to leave is to cancel (2026-07-28)
                self._owner.recording.close_connection(self._episode, self._number, cancelled=left)
        elif self._over:
            self._owner.end(self._session)
