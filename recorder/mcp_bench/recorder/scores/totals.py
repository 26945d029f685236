"""Totals of a set of episodes: scores by task, invalid episodes, verdicts, calls and usage."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from mcp_bench.recorder.records import NORMAL_ENDS
from mcp_bench.recorder.runs.reader import StoredEpisode
from mcp_bench.recorder.taint import verified
from mcp_bench.servers.grading import Measure, Score

NOT_KNOWN = "unknown"
"""Counts ends of which the source of an imported episode says nothing."""
SILENT = frozenset(("endpoint_error", "login_missing"))
"""Invalid reasons of an episode whose model did not answer."""


@dataclass(slots=True)
class TaskTotals:
    """Totals of one task. `episodes` counts valid graded episodes only; scores are sums over those."""

    episodes: int = 0
    partial: float = 0.0
    strict: int = 0
    invalid: int = 0
    score: float = 0.0
    """Sum of the measured scores. It means something if there is a `measure`."""
    measures: set[Measure | None] = field(default_factory=set)
    """What was measured in the episodes; None for one without a score."""

    @property
    def measure(self) -> Measure | None:
        """What was measured, if it was the same in all episodes."""
        return next(iter(self.measures)) if len(self.measures) == 1 else None

    def measured(self, score: Score | None) -> None:
        self.measures.add(None if score is None else score.measure)
        self.score += 0.0 if score is None else score.value


@dataclass(slots=True)
class Sums:
    """Sums of scores over some graded episodes."""

    episodes: int = 0
    partial: float = 0.0
    strict: int = 0

    def add(self, partial: float, strict: bool) -> None:
        self.episodes += 1
        self.partial += partial
        self.strict += strict

    def row(self) -> dict[str, Any]:
        count = self.episodes
        return {
            "episodes": count,
            "partial": self.partial / count if count else None,
            "strict": self.strict / count if count else None,
        }


@dataclass(slots=True)
class Totals:
    """Totals of a set of episodes. `usage` sums the tokens and cost that the agents reported."""

    tasks: dict[str, TaskTotals] = field(default_factory=dict)
    episodes: int = 0
    invalid: Counter[str] = field(default_factory=Counter)
    """Number of invalid episodes by reason."""
    ungraded: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    """Number of valid episodes by termination."""
    taints: Counter[str] = field(default_factory=Counter)
    """Number of valid episodes by taint verdict."""
    verified: int = 0
    """Number of verified valid episodes."""
    public: int = 0
    """Number of valid episodes whose task anybody can know beforehand."""
    private: int = 0
    """Number of valid episodes whose task nobody can know beforehand. Old runs do not say which."""
    claims: Counter[str] = field(default_factory=Counter)
    """Number of valid episodes by the failure that their agent reported and the referee did not see."""
    first: Sums = field(default_factory=Sums)
    """Scores of the graded episodes that are the first attempt of their slot."""
    retried: Sums = field(default_factory=Sums)
    """Scores of those that were preceded by an invalid attempt."""
    earlier: int = 0
    """Superseded attempts: retried, or from before a run was stopped and resumed."""
    calls: int = 0
    failed_calls: int = 0
    usage: dict[str, float] = field(default_factory=dict)
    roles_usd: float | None = None
    """What the models of the worlds' roles cost, as far as it is known."""
    seconds: float = 0.0
    """Sum of the durations of valid episodes."""
    timed: int = 0
    """Number of valid episodes that lasted some time. Imported ones may not say how long."""
    unpriced: int = 0
    """Number of valid episodes without a cost."""
    runs: dict[str, tuple[tuple[str, ...], str]] = field(default_factory=dict)
    """The tags and the note of each run."""

    @property
    def model_never_answered(self) -> bool:
        """Whether every episode failed at its model endpoint, without a call or a token from the model."""
        worked = self.calls or self.usage.get("output_tokens")
        return (
            bool(self.episodes)
            and not worked
            and self.invalid.total() == self.episodes
            and (self.invalid.keys() <= SILENT)
        )

    def add(self, episode: StoredEpisode) -> None:
        self.episodes += 1
        self.earlier += episode.attempt - 1
        self.calls += episode.calls
        self.failed_calls += episode.failed_calls
        self.runs.setdefault(episode.run, (episode.run_tags, episode.run_note))
        for name, value in (episode.usage or {}).items():
            if value is not None:
                self.usage[name] = self.usage.get(name, 0) + value
        if episode.roles_usd is not None:
            self.roles_usd = (self.roles_usd or 0.0) + episode.roles_usd
        # task ids of different benchmarks can coincide
        task = self.tasks.setdefault(f"{episode.benchmark}/{episode.task}", TaskTotals())
        if episode.invalid is not None:
            self.invalid[episode.invalid] += 1
            task.invalid += 1
            return
        if episode.seconds:
            self.seconds += episode.seconds
            self.timed += 1
        self.unpriced += (episode.usage or {}).get("cost_usd") is None
        self.ends[episode.termination or NOT_KNOWN] += 1
        self.taints[episode.taint] += 1
        self.verified += verified(episode)
        self.public += episode.public is True
        self.private += episode.public is False
        if episode.claim is not None:
            self.claims[episode.claim] += 1
        if episode.partial is None:
            self.ungraded += 1
        else:
            task.episodes += 1
            task.partial += episode.partial
            task.strict += bool(episode.strict)
            task.measured(episode.score)
            sums = self.first if episode.attempt == 1 else self.retried
            sums.add(episode.partial, bool(episode.strict))

    def graded(self) -> dict[str, TaskTotals]:
        """Return the tasks with a valid graded episode, sorted by name."""
        return {name: task for name, task in sorted(self.tasks.items()) if task.episodes}

    def measure(self) -> Measure | None:
        """Return what was measured, if it was the same in all graded episodes."""
        found = {measure for task in self.tasks.values() for measure in task.measures}
        return next(iter(found)) if len(found) == 1 else None

    def cost_per_solved(self) -> float | None:
        """Return the cost of all episodes, invalid ones included, divided by the number of solved ones.

        None if nothing is solved, or if the cost of a valid episode is not known: it would be too low.
        """
        solved = sum(task.strict for task in self.tasks.values())
        cost = self.usage.get("cost_usd")
        return None if cost is None or self.unpriced or not solved else cost / solved

    def counts(self) -> dict[str, Any]:
        """Return the counts of a report row: episodes, invalid ones with reasons, terminations, calls."""
        return {
            "episodes": self.episodes,
            "invalid": self.invalid.total(),
            "invalid_reasons": dict(sorted(self.invalid.items())),
            "model_never_answered": self.model_never_answered,
            "ungraded": self.ungraded,
            "earlier_attempts": self.earlier,
            "first_attempts": self.first.row(),
            "retried": self.retried.row(),
            "claims": dict(sorted(self.claims.items())),
            "terminations": dict(sorted(self.ends.items())),
            "verified": self.verified,
            "public_tasks": self.public,
            "private_tasks": self.private,
            **{verdict: self.taints[verdict] for verdict in ("clean", "tainted", "unknown")},
            "tool_calls": self.calls,
            "failed_calls": self.failed_calls,
        }


def cut_short(row: dict[str, Any]) -> dict[str, int]:
    """Return how many valid episodes of a report row neither the agent nor the world ended, by what did."""
    others = NORMAL_ENDS | {NOT_KNOWN}
    return {end: count for end, count in row["terminations"].items() if end not in others}


def finished(episode: StoredEpisode) -> bool:
    """Return whether an episode has ended, valid or not. Reports leave out running episodes."""
    return episode.ended_us is not None or episode.invalid is not None
