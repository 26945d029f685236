"""Follows the frames of a run, and says which tool call each of them opens or settles."""

from __future__ import annotations

import logging
from collections import defaultdict
from dataclasses import dataclass

from mcp_bench.recorder.frames import jsonrpc
from mcp_bench.recorder.records import Direction, Outcome

_log = logging.getLogger(__name__)

Wire = tuple[str, int]
"""Episode and connection."""


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
    """Its client gave up on it."""

    def settle(self, outcome: Outcome, frame: int | None, now: int) -> None:
        self.outcome, self.response_frame, self.ended_us = outcome, frame, now


class OpenCalls:
    """The calls that have no outcome yet, by wire."""

    def __init__(self, last: int) -> None:
        """`last` is the highest number of a call so far."""
        self.last = last
        self._open: dict[Wire, list[Call]] = defaultdict(list)
        self._executed: dict[str, int] = {}

    def follow(
        self, wire_: Wire, direction: Direction, message: jsonrpc.Frame, frame: int, now: int
    ) -> Call | None:
        """Return the call that `message`, of the frame numbered `frame`, opens or settles."""
        if direction == "server":
            return self._settled(wire_, message, frame, now)
        if message.is_call and message.rpc_id is not None:
            self.last += 1
            arguments = message.arguments or "{}"
            call = Call(self.last, *wire_, message.rpc_id, message.tool, arguments, now, frame)
            self._open[wire_].append(call)
            return call
        if message.cancels is not None:
            for call in self._open.get(wire_, ()):
                call.cancelled |= call.rpc_id == message.cancels
        return None

    def _settled(self, wire_: Wire, message: jsonrpc.Frame, frame: int, now: int) -> Call | None:
        calls = self._open.get(wire_, [])
        call = next((c for c in calls if c.rpc_id == message.rpc_id), None)
        if call is None or message.outcome is None:  # the answer to something else
            return None
        calls.remove(call)
        given_up = call.cancelled and message.outcome == "rpc_error"
        call.settle("cancelled" if given_up else message.outcome, frame, now)
        return call

    def reopen(self, call: Call) -> None:
        """Know a call of an earlier writer."""
        self._open[call.episode, call.connection].append(call)

    def run(self, wire_: Wire, rpc_id: int | str | float | None, execution: int | None = None) -> Call | None:
        """Number the call that the server starts to run now, with the next number if none is given;
        return it, None where there is no such call."""
        waiting = [call for call in self._open.get(wire_, ()) if call.execution is None]
        exact = jsonrpc.id_text(rpc_id)
        call = next((c for c in waiting if c.rpc_id == exact), None) or next(
            (c for c in waiting if _same_number(c.rpc_id, rpc_id)), None
        )
        if call is None:
            _log.warning("episode %s: no open call has the id %s", wire_[0], exact)
            return None
        episode = wire_[0]
        call.execution = self._executed.get(episode, 0) + 1 if execution is None else execution
        self._executed[episode] = call.execution
        return call

    def abandon(self, wire_: Wire, now: int, *, cancelled: bool = False) -> list[Call]:
        """Settle the calls of a wire that got no response, and return them: `cancelled` where the client
        gave up on them, or on all, else `transport_error`."""
        calls = self._open.pop(wire_, [])
        for call in calls:
            call.settle("cancelled" if cancelled or call.cancelled else "transport_error", None, now)
        return calls

    def end(self, episode: str, now: int) -> list[Call]:
        """Abandon all wires of an episode, and forget it."""
        wires = [wire_ for wire_ in self._open if wire_[0] == episode]
        self._executed.pop(episode, None)
        return [call for wire_ in wires for call in self.abandon(wire_, now)]


def _same_number(spelled: str, value: object) -> bool:
    # a server may have read the id 1.0 as 1, or 1e0 as 1.0
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return float(spelled) == value
    except ValueError:
        return False
