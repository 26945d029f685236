"""What happens in a run, as a process reports it that records for another one.

Each event is a JSON object of one line: `event` is its class here, the other members are its fields.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

SIGNAL = "signal"
"""`stopped_by` of a run that a signal stopped."""


@dataclass(frozen=True, slots=True)
class RunStarted:
    """All options are checked and the run's folder exists. Its first episodes start."""

    run: str
    agent: str
    benchmark: str
    model: str | None
    isolation: str
    episodes: int
    """Number of episodes that this call records; with a resumed run, those that are left."""


@dataclass(frozen=True, slots=True)
class EpisodeStarted:
    """An attempt at a task starts, after `retries` earlier ones."""

    run: str
    task: str
    seed: int
    repeat: int
    retries: int


@dataclass(frozen=True, slots=True)
class EpisodeEnded:
    """An attempt ended and is stored, with its grade.

    `partial` and `strict` are None if it is invalid or the run has no grades.
    """

    run: str
    episode: str
    task: str
    seed: int
    repeat: int
    partial: float | None
    strict: bool | None
    invalid: str | None
    """Reason code of an attempt that says nothing about the agent."""
    detail: str | None
    termination: str | None
    calls: int
    seconds: float
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    retried: bool
    """Whether another attempt follows."""
    done: int
    """Episodes of this call that are done."""
    total: int
    """Episodes of this call."""


@dataclass(frozen=True, slots=True)
class RunEnded:
    """The result of one `mcp-bench record`: what its `--json` prints.

    The counts are those of the whole run, also if only a part of it was left to record.
    """

    run: str
    path: str
    episodes: int
    """Episodes of the run's plan."""
    episodes_now: int
    """Those of them that this call brought to an end; fewer with a resumed run."""
    graded: int
    recorded: int
    """Valid episodes of a run without grades."""
    invalid: int
    retried: int
    claims: int
    """Graded episodes whose agent reported a failure that the referee did not see."""
    model_never_answered: bool
    """Whether the model gave no answer in any attempt."""
    tainted: int
    """Episodes whose agent looked for its grade."""
    partial: float | None
    """Mean of the graded episodes."""
    strict: float | None
    """Share of the graded episodes."""
    calls: int
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    stopped: bool
    stopped_by: str | None
    """`signal`, or why the circuit breaker ended the run early; None if every episode had its turn."""


Event = RunStarted | EpisodeStarted | EpisodeEnded | RunEnded

_EVENTS: dict[str, type[Event]] = {
    event.__name__: event for event in (RunStarted, EpisodeStarted, EpisodeEnded, RunEnded)
}


def encode(event: Event) -> dict[str, Any]:
    return {"event": type(event).__name__, **asdict(event)}


def decode(document: dict[str, Any]) -> Event | None:
    """Return the event that was encoded, or None if the object is none."""
    kind = _EVENTS.get(document.get("event", ""))
    return None if kind is None else kind(**{k: v for k, v in document.items() if k != "event"})
