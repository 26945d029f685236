"""What is counted of a set of episodes: scores by task, and everything that went wrong."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from mcp_bench.recorder.store.reader import StoredEpisode
from mcp_bench.recorder.taint import verified


@dataclass(slots=True)
class TaskTally:
    """One task: `episodes` are graded and valid, `invalid` ones are apart; scores are sums."""

    episodes: int = 0
    partial: float = 0.0
    strict: int = 0
    invalid: int = 0


@dataclass(slots=True)
class Tally:
    """Counts of episodes. Invalid ones are counted, never hidden; tokens and money are sums of what the
    agents told, None where none told any."""

    tasks: dict[str, TaskTally] = field(default_factory=dict)
    episodes: int = 0
    invalid: Counter[str] = field(default_factory=Counter)
    """By reason."""
    ungraded: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    """How the valid episodes ended."""
    taints: Counter[str] = field(default_factory=Counter)
    """Of the valid episodes, by verdict."""
    verified: int = 0
    """Of the valid episodes."""
    earlier: int = 0
    """Attempts before the ones that are counted: retried, or of a run that was stopped and resumed."""
    calls: int = 0
    failed_calls: int = 0
    usage: dict[str, float] = field(default_factory=dict)

    def add(self, episode: StoredEpisode) -> None:
        self.episodes += 1
        self.earlier += episode.attempt - 1
        self.calls += episode.calls
        self.failed_calls += episode.failed_calls
        for name, value in (episode.usage or {}).items():
            if value is not None:
                self.usage[name] = self.usage.get(name, 0) + value
        # one tally may hold several benchmarks, whose task ids may coincide
        task = self.tasks.setdefault(f"{episode.benchmark}/{episode.task}", TaskTally())
        if episode.invalid is not None:
            self.invalid[episode.invalid] += 1
            task.invalid += 1
            return
        self.ends[episode.termination or "unknown"] += 1
        self.taints[episode.taint] += 1
        self.verified += verified(episode)
        if episode.partial is None:
            self.ungraded += 1
        else:
            task.episodes += 1
            task.partial += episode.partial
            task.strict += bool(episode.strict)

    def graded(self) -> dict[str, TaskTally]:
        """Return the tasks with a valid graded episode, sorted by name."""
        return {name: task for name, task in sorted(self.tasks.items()) if task.episodes}

    def counts(self) -> dict[str, Any]:
        """Return the part of a report's row that says how many there were, and what went wrong."""
        return {
            "episodes": self.episodes,
            "invalid": self.invalid.total(),
            "invalid_reasons": dict(sorted(self.invalid.items())),
            "ungraded": self.ungraded,
            "earlier_attempts": self.earlier,
            "terminations": dict(sorted(self.ends.items())),
            "verified": self.verified,
            **{verdict: self.taints[verdict] for verdict in ("clean", "tainted", "unknown")},
            "tool_calls": self.calls,
            "failed_calls": self.failed_calls,
        }


def finished(episode: StoredEpisode) -> bool:
    """Whether an episode is over, well or not: one that still runs is no part of a report."""
    return episode.ended_us is not None or episode.invalid is not None
