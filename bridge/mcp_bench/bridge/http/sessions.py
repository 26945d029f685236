"""Assigns HTTP exchanges to connections and episodes.

All exchanges of one session (`Mcp-Session-Id`, 2025-03-26 to 2025-11-25) are one connection: after a stream
broke, an answer may arrive on another exchange than its call. A request without a session (2026-07-28, and
servers without sessions) is a separate connection, because different clients may use the same ids.
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
"""Key of the ASGI scope that holds the number of the connection in the recording."""


class Episodes(Protocol):
    """Decides which episode messages belong to. None stores them outside any episode."""

    def opened(self, session: str, handshake: Body) -> None:
        """Note a new session.

        Args:
            session: Its id.
            handshake: The request that started it. If the session is older than this recording, the first
                request that was seen.
        """
        ...

    def current(self, session: str) -> str | None:
        """Return the current episode of a session."""
        ...

    def without_session(self, request: Body) -> str | None:
        """Return the episode of a request without a session, and of its answer."""
        ...

    def closed(self, session: str, *, unknown: bool = False) -> None:
        """Note that a session was deleted, or that its server no longer knows it.

        `unknown` means that the server never accepted the session.
        """
        ...


class SessionExchanges:
    """Open exchanges for `Recorded`. Use one per recording, because it numbers the connections."""

    def __init__(self, recording: Recording, episodes: Episodes) -> None:
        self.recording = recording
        self.episodes = episodes
        self.connections: dict[str, int] = {}
        """Connection numbers of the open sessions, by id."""
        self._adopted: set[str] = set()
        """Sessions older than this recording, until the server accepts them."""
        self._numbers = itertools.count(1)

    def __call__(self, scope: Scope) -> SessionExchange:
        session = session_id(scope["headers"])
        number = self.connections.get(session or "") or next(self._numbers)
        scope[CONNECTION] = number
        self.recording.connected(None, number, "tcp", session)
        return SessionExchange(self, scope["method"], session, number)

    def begin(self, session: str, number: int, handshake: Body) -> None:
        self.end(session)  # a server that was started anew may give an id again
        self.episodes.opened(session, handshake)
        self.connections[session] = number

    def adopt(self, session: str, number: int, request: Body) -> int:
        """Return the connection number of a session. Begin a session that is older than the recording."""
        if session not in self.connections:
            self.begin(session, number, request)
            self._adopted.add(session)
        return self.connections[session]

    def accepted(self, session: str) -> None:
        """Note that the server knows the session."""
        self._adopted.discard(session)

    def end(self, session: str) -> None:
        """End a session and settle its open calls. Ignore a session that is not open."""
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
        if self._handshake is not None and status < 400:
            if given is None:  # the server has no sessions
                self._episode = self._owner.episodes.without_session(self._handshake)
            else:
                self._session = given
                self._owner.begin(given, self._number, self._handshake)
        if self._session is not None and status < 400:
            if self._method == "GET":  # a stream, without a message of the client
                self._number = self._owner.adopt(self._session, self._number, b"")
            self._owner.accepted(self._session)
        # 404 means that the server no longer knows the session; to GET, often that it has no such stream
        forgot = status == 404 and self._method != "GET"
        self._over = forgot or (self._method == "DELETE" and status < 300)

    def close(self, left: bool) -> None:
        if self._session is None:
            if self._episode is not None:  # without a session, a client cancels by disconnecting (2026-07-28)
                self._owner.recording.close_connection(self._episode, self._number, cancelled=left)
        elif self._over:
            self._owner.end(self._session)
