"""An episode's conversation for its page: turns with their calls, each call with its result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from mcp_bench.bridge.viewer.trees import Drawn, draw_text, draw_value, summary_line

OUTCOMES = {
    "ok": "ok",
    "tool_error": "error of the tool",
    "rpc_error": "protocol error",
    "transport_error": "no result",
    "cancelled": "cancelled",
}
NEVER = "never reached the server"
OPEN = "not ended"
LONG_TEXT = 1_500
"""Characters of a prompt that are shown unfolded."""
KINDS = {
    "error": "errors",
    "call": "calls",
    "text": "messages",
    "reasoning": "reasoning",
    "user": "user turns",
}
"""What the page can be filtered by."""

IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""Formats that cannot contain scripts."""


@dataclass(frozen=True, slots=True)
class Image:
    """An image in a result: where it is in the call, and its facts."""

    index: int
    media_type: str
    size: int

    @property
    def shown(self) -> bool:
        return self.media_type in IMAGE_TYPES


@dataclass(slots=True)
class Call:
    """One call of a turn. `number` counts the recorded calls from 1; None if it never reached the server."""

    number: int | None
    execution: int | None
    name: str
    line: str
    arguments: Drawn
    outcome: str
    failed: bool
    at: int | None
    """Microseconds since the start of the episode."""
    took: float | None
    """Milliseconds."""
    result: Drawn | None = None
    images: list[Image] = field(default_factory=list)


@dataclass(slots=True)
class Turn:
    """One message that is not the result of a call."""

    position: int
    role: str
    number: int | None = None
    at: int | None = None
    took: float | None = None
    reasoning: str = ""
    text: str = ""
    calls: list[Call] = field(default_factory=list)
    model_call: str | None = None
    """Id of the captured model call that produced it."""

    @property
    def long(self) -> bool:
        return len(self.text) > LONG_TEXT

    @property
    def kinds(self) -> list[str]:
        """What is in it, of `KINDS`."""
        has = {
            "error": any(call.failed for call in self.calls),
            "call": bool(self.calls),
            "text": bool(self.text),
            "reasoning": bool(self.reasoning),
            "user": self.role == "user",
        }
        return [kind for kind in KINDS if has[kind]]

    @property
    def line(self) -> str:
        """Its beginning, on one line."""
        return summary_line(self.text or self.reasoning)


def conversation(document: dict[str, Any]) -> list[Turn]:
    """Return the turns of what `episode_document` returned."""
    results = {
        message.get("tool_call_id"): message for message in document["messages"] if message["role"] == "tool"
    }
    return list(_turns(document, results))


def _turns(document: dict[str, Any], results: dict[Any, dict[str, Any]]) -> Iterator[Turn]:
    began, goes_on = document["started_us"], document["ended_us"] is None
    pairs = zip(document["messages"], document["timeline"], strict=True)
    for position, (message, moment) in enumerate(pairs):
        if message["role"] == "tool":
            continue
        started, ended = moment["started_us"], moment["ended_us"]
        at = started if ended is None else ended
        turn = Turn(
            position,
            message["role"],
            moment["turn"],
            None if at is None else at - began,
            None if started is None or ended is None else (ended - started) / 1000,
            message.get("reasoning") or "",
            message.get("content") or "",
            model_call=moment["model_call"],
        )
        calls = message.get("tool_calls") or ()
        for call, number in zip(calls, moment["calls"] if calls else (), strict=True):
            recorded = document["calls"][number - 1] if number else None
            result = results.get(call["id"])
            turn.calls.append(_call(call["function"], number, recorded, result, began, goes_on=goes_on))
        yield turn


def _call(
    function: dict[str, Any],
    number: int | None,
    recorded: dict[str, Any] | None,
    result: dict[str, Any] | None,
    began: int,
    *,
    goes_on: bool,
) -> Call:
    arguments = function.get("arguments") or {}
    outcome = recorded["outcome"] if recorded else None
    if recorded:
        # the result of a call without an outcome may still come
        failed = outcome != "ok" and not (outcome is None and goes_on)
    else:
        # the agent's own tools are not recorded: what it says of them has to do
        failed = result is None or result["is_error"]
    text = (result or {}).get("content")
    if text is None and recorded is not None:
        text = recorded["text"]
    images = (result or {}).get("images", [])
    for image in images:
        text = (text or "").replace(image["text"], "", 1)
    return Call(
        number=number,
        execution=recorded["execution"] if recorded else None,
        name=function["name"],
        line=summary_line(arguments),
        arguments=draw_value(arguments),
        outcome=OUTCOMES.get(outcome or "", OPEN) if recorded else NEVER,
        failed=failed,
        at=recorded["started_us"] - began if recorded else None,
        took=_milliseconds(recorded),
        result=draw_text(text) if text else None,
        images=[Image(at, image["media_type"], image["bytes"]) for at, image in enumerate(images)],
    )


def _milliseconds(call: dict[str, Any] | None) -> float | None:
    if call is None or call["ended_us"] is None:
        return None
    return float(call["ended_us"] - call["started_us"]) / 1000


def calls_of(turns: Sequence[Turn]) -> list[Call]:
    """Return the calls of all turns in order."""
    return [call for turn in turns for call in turn.calls]
