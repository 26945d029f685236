"""Where the time of an episode went: turns of the model and calls, by the clock."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from mcp_bench.bridge.viewer.conversation import Turn

Kind = Literal["model", "tool", "failed"]


@dataclass(frozen=True, slots=True)
class Span:
    """A turn of the model, or a call. `begin` and `length` are shares of the episode's time."""

    kind: Kind
    name: str
    at: int
    """Microseconds since the start of the episode."""
    took: float
    """Milliseconds."""
    begin: float
    length: float


@dataclass(frozen=True, slots=True)
class Timeline:
    """The spans of an episode, in the order of its conversation, and what they take together."""

    spans: list[Span]

    def took(self, *kinds: Kind) -> float | None:
        """Return the milliseconds of these kinds together; None if no time of theirs is known."""
        found = [span.took for span in self.spans if span.kind in kinds]
        return sum(found) if found else None


def timeline(turns: Sequence[Turn], seconds: float | None) -> Timeline:
    """Return the timeline of an episode that took `seconds`; it is empty while it goes on."""
    if not seconds:
        return Timeline([])
    return Timeline(list(_spans(turns, seconds * 1e6)))


def _spans(turns: Sequence[Turn], whole: float) -> Iterator[Span]:
    for turn in turns:
        if turn.at is not None and turn.took is not None:  # `at` is its end
            yield _span("model", f"turn {turn.number}", turn.at - round(turn.took * 1000), turn.took, whole)
        for call in turn.calls:
            if call.at is not None and call.took is not None:
                kind: Kind = "failed" if call.failed else "tool"
                yield _span(kind, f"{call.number} {call.name}", call.at, call.took, whole)


def _span(kind: Kind, name: str, at: int, took: float, whole: float) -> Span:
    begin = min(1.0, max(0.0, at / whole))
    return Span(kind, name, at, took, begin, min(1.0 - begin, max(0.0, took * 1000 / whole)))
