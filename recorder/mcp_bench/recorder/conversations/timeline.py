"""When the messages of a conversation happened: from the recorded calls and the captured model calls.

Agents' transcripts have no times that could be trusted. A call's times are those of its frames.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mcp_bench.recorder.conversations.align import matched
from mcp_bench.recorder.records import RecordedCall
from mcp_bench.recorder.store.model_calls import StoredModelCall
from mcp_bench.recorder.trajectory import Message


@dataclass(slots=True)
class Moment:
    """What is known about one message. Times are microseconds since the epoch, UTC."""

    turn: int | None = None
    """1, 2, ... for messages of the agent."""
    started_us: int | None = None
    """When the model was asked, or the call arrived."""
    ended_us: int | None = None
    """When the model had answered (without captured model calls: the first call of the turn arrived), or the
    call had its result."""
    calls: tuple[int | None, ...] = ()
    """Numbers of the recorded calls (1, 2, ...) that the turn made, or whose result this is; None for one
    that never reached the server."""
    model_call: str | None = None
    """Id of the captured model call that produced the turn."""


def timeline(
    messages: Sequence[Message], calls: Sequence[RecordedCall], captured: Sequence[StoredModelCall] = ()
) -> list[Moment]:
    """Return a moment for each message.

    Args:
        messages: of one episode.
        calls: its recorded calls, in order.
        captured: its captured model calls, each with its place among these messages.
    """
    turns = [message for message in messages if message.role != "tool"]
    indexes = iter(matched(turns, calls))
    asked = {call.message: call for call in captured if call.message is not None}
    by_id: dict[str, int | None] = {}
    found: list[Moment] = []
    number = 0
    for position, message in enumerate(messages):
        moment = Moment()
        found.append(moment)
        if message.role == "tool":
            at = by_id.get(message.tool_call_id or "")
            moment.calls = (None if at is None else at + 1,)
            if at is not None:
                moment.started_us, moment.ended_us = calls[at].started_us, calls[at].ended_us
            continue
        own = next(indexes)
        if message.role != "assistant":
            continue
        number += 1
        moment.turn = number
        moment.calls = tuple(None if at is None else at + 1 for at in own)
        by_id |= {call.id: at for call, at in zip(message.tool_calls, own, strict=True)}
        if (model_call := asked.get(position)) is not None:
            moment.started_us, moment.ended_us = model_call.started_us, model_call.ended_us
            moment.model_call = model_call.id
        else:
            moment.ended_us = min((calls[at].started_us for at in own if at is not None), default=None)
    return found
