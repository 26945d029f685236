"""Follow the frames of a run, and keep the state of each tool call in them."""

from __future__ import annotations

import logging
import sqlite3
from collections import defaultdict
from dataclasses import dataclass

from mcp_bench.recorder.frames import jsonrpc
from mcp_bench.recorder.frames.body import Body
from mcp_bench.recorder.records import Direction, Outcome
from mcp_bench.recorder.store.observers import CallEnd, CallStart, Observers
from mcp_bench.recorder.store.signatures import Signer

_log = logging.getLogger(__name__)

Wire = tuple[str, int]
"""Episode and connection."""
CallRow = tuple[object, ...]
"""Values for `STORE_CALL`."""

STORE_CALL = (
    "INSERT INTO calls (id, episode, connection, rpc_id, tool, arguments, execution, outcome, started_us,"
    " ended_us, request_frame, response_frame, tag) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (id) DO UPDATE SET execution = excluded.execution, outcome = excluded.outcome,"
    " ended_us = excluded.ended_us, response_frame = excluded.response_frame, tag = excluded.tag"
)


@dataclass(slots=True)
class Call:
    """A row of `calls`."""

    number: int
    episode: str
    connection: int
    rpc_id: str
    tool: str | None
    arguments: str
    started_us: int
    request_frame: int
    execution: int | None = None
    outcome: Outcome | None = None
    ended_us: int | None = None
    response_frame: int | None = None
    cancelled: bool = False
    """The client cancelled it."""

    def row(self, signer: Signer) -> CallRow:
        values = (
            self.number,
            self.episode,
            self.connection,
            self.rpc_id,
            self.tool,
            self.arguments,
            self.execution,
            self.outcome,
            self.started_us,
            self.ended_us,
            self.request_frame,
            self.response_frame,
        )
        return (*values, signer.tag("calls", values))


class CallTracker:
    """The calls that have no outcome yet, by connection, and those that changed since the last commit.

    Its caller holds a lock.
    """

    def __init__(self, last: int, signer: Signer, observers: Observers) -> None:
        self.last = last
        """Highest number of a call so far."""
        self._signer = signer
        self._observers = observers
        self._open: dict[Wire, list[Call]] = defaultdict(list)
        self._others: dict[Wire, set[str]] = defaultdict(set)
        """The ids of open requests that are no calls, whose answers are of no call with the same number."""
        self._executed: dict[str, int] = {}
        self._changed: dict[int, Call] = {}

    def load(self, db: sqlite3.Connection) -> None:
        """Add the calls that an earlier writer left open."""
        rows = db.execute(
            "SELECT id, episode, connection, rpc_id, tool, arguments, started_us, request_frame, execution"
            " FROM calls WHERE outcome IS NULL ORDER BY id"
        )
        for call in (Call(*row) for row in rows):
            self._open[call.episode, call.connection].append(call)

    def take_rows(self) -> dict[int, CallRow]:
        """Return the rows of the calls that changed since the last time, by number."""
        rows = {number: call.row(self._signer) for number, call in self._changed.items()}
        self._changed.clear()
        return rows

    def follow(
        self, wire: Wire, direction: Direction, message: jsonrpc.Frame, frame: int, now: int, body: Body
    ) -> None:
        """Open or settle the call of a message. `frame` and `body` are those of its frame."""
        if direction == "server":
            self._settle_with(wire, message, frame, now, body)
        elif message.is_call and message.rpc_id is not None:
            self.last += 1
            arguments = message.arguments or "{}"
            call = Call(self.last, *wire, message.rpc_id, message.tool, arguments, now, frame)
            self._open[wire].append(call)
            if others := self._others.get(wire):
                others.discard(call.rpc_id)
            self._changed[call.number] = call
            if self._observers:
                self._observers.notify("call_opened", _start(call, body))
        elif message.cancels is not None:
            self._cancel(wire, message.cancels)
        elif message.kind == "request" and message.rpc_id is not None:
            self._others[wire].add(message.rpc_id)

    def _cancel(self, wire: Wire, rpc_id: str) -> None:
        if self._is_of_no_call(wire, rpc_id):
            return
        calls = self._open.get(wire, [])
        asked = jsonrpc.same_id(rpc_id, [c.rpc_id for c in calls])
        for call in calls:
            call.cancelled |= call.rpc_id == asked

    def _is_of_no_call(self, wire: Wire, rpc_id: str | None) -> bool:
        """Return whether an id is that of another open request, which is over now."""
        others = self._others.get(wire)
        if not others or rpc_id not in others:
            return False
        others.discard(rpc_id)
        return True

    def _settle_with(self, wire: Wire, message: jsonrpc.Frame, frame: int, now: int, body: Body) -> None:
        if message.outcome is None or self._is_of_no_call(wire, message.rpc_id):
            return
        calls = self._open.get(wire, [])
        asked = jsonrpc.same_id(message.rpc_id, [c.rpc_id for c in calls])
        call = next((c for c in calls if c.rpc_id == asked), None)
        if call is None:  # it answers nothing
            return
        calls.remove(call)
        cancelled = call.cancelled and message.outcome == "rpc_error"
        self._settle(call, "cancelled" if cancelled else message.outcome, frame, now, body)

    def _settle(self, call: Call, outcome: Outcome, frame: int | None, now: int, body: Body | None) -> None:
        call.outcome, call.response_frame, call.ended_us = outcome, frame, now
        self._changed[call.number] = call
        if self._observers:
            self._observers.notify("call_settled", CallEnd(call.number, call.rpc_id, outcome, now, body))

    def run(self, wire: Wire, rpc_id: int | str | float | None, execution: int | None = None) -> Call | None:
        """Number the call that the server starts to run now, and return it.

        Args:
            wire: its connection.
            rpc_id: its JSON-RPC id, as the server read it.
            execution: its number; the next one if None.

        Returns:
            The call; None if no open call has this id.
        """
        waiting = [call for call in self._open.get(wire, ()) if call.execution is None]
        asked = jsonrpc.same_id(jsonrpc.id_text(rpc_id), [c.rpc_id for c in waiting])
        call = next((c for c in waiting if c.rpc_id == asked), None)
        if call is None:
            _log.warning("episode %s: no open call has the id %s", wire[0], asked)
            return None
        episode = wire[0]
        call.execution = self._executed.get(episode, 0) + 1 if execution is None else execution
        self._executed[episode] = call.execution
        self._changed[call.number] = call
        return call

    def abandon(self, wire: Wire, now: int, *, cancelled: bool = False) -> None:
        """Settle the open calls of a connection without a response.

        Their outcome is `cancelled` if the client cancelled them, or for all of them with `cancelled`;
        otherwise it is `transport_error`.
        """
        self._others.pop(wire, None)
        for call in self._open.pop(wire, []):
            outcome: Outcome = "cancelled" if cancelled or call.cancelled else "transport_error"
            self._settle(call, outcome, None, now, None)

    def end(self, episode: str, now: int) -> None:
        """Abandon all connections of an episode, and forget it."""
        self._executed.pop(episode, None)
        for wire in [wire for wire in {**self._open, **self._others} if wire[0] == episode]:
            self.abandon(wire, now)


def _start(call: Call, body: Body) -> CallStart:
    return CallStart(
        call.number,
        call.episode,
        call.connection,
        call.rpc_id,
        call.tool,
        call.arguments,
        call.started_us,
        body,
    )
