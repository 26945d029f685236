"""Scores of the recorded episodes, grouped. Invalid episodes are counted, never hidden."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcp_bench.recorder.errors import StorageError
from mcp_bench.recorder.reader import RunReader, RunSummary, StoredEpisode
from mcp_bench.recorder.statistics import TaskSum, bootstrap, mean
from mcp_bench.servers.errors import UnknownNameError

GROUPS = ("agent", "model", "benchmark", "split", "domain")
SEVERAL = "*"
"""Stands in a row for a field that has more than one value and was not grouped by."""

_FACTS = (*GROUPS, "benchmark_version", "agent_version", "isolation", "tools_mode")


@dataclass
class _Group:
    facts: dict[str, Any]
    tasks: dict[str, TaskSum] = field(default_factory=dict)
    episodes: int = 0
    invalid: int = 0
    ungraded: int = 0
    calls: int = 0

    def add(self, episode: StoredEpisode) -> None:
        self.facts = {
            name: value if value == getattr(episode, name) else SEVERAL for name, value in self.facts.items()
        }
        self.episodes += 1
        self.calls += episode.calls
        if episode.invalid is not None:
            self.invalid += 1
        elif episode.partial is None:
            self.ungraded += 1
        else:
            # one row may hold several benchmarks, whose task ids may coincide
            task = self.tasks.setdefault(f"{episode.benchmark}/{episode.task}", TaskSum())
            task.add(episode.partial, bool(episode.strict))

    def row(self) -> dict[str, Any]:
        partial = sum(task.partial for task in self.tasks.values())
        strict = sum(task.strict for task in self.tasks.values())
        graded = self.episodes - self.invalid - self.ungraded
        intervals = bootstrap(self.tasks, seed="mcp-bench report")
        return {
            **self.facts,
            "episodes": self.episodes,
            "invalid": self.invalid,
            "ungraded": self.ungraded,
            "tasks": len(self.tasks),
            "partial": mean(partial, graded),
            "partial_ci": intervals and list(intervals[0]),
            "strict": mean(strict, graded),
            "strict_ci": intervals and list(intervals[1]),
            "partial_invalid_as_0": mean(partial, graded + self.invalid),
            "strict_invalid_as_0": mean(strict, graded + self.invalid),
            "tool_calls": self.calls,
            "tool_calls_per_episode": mean(self.calls, self.episodes),
        }


def groups(by: str) -> list[str]:
    """Read a comma-separated `--by`.

    Raises:
        UnknownNameError: one of the names is none of `GROUPS`.
    """
    names = [name.strip() for name in by.split(",") if name.strip()]
    for name in names:
        if name not in GROUPS:
            raise UnknownNameError("group", name, GROUPS)
    return names


def report(episodes: Iterable[StoredEpisode], by: Sequence[str]) -> list[dict[str, Any]]:
    """Return one row for each group, sorted. Episodes that still run are left out.

    `partial` and `strict` are means over graded episodes, with 95 % intervals (None with fewer
    than two tasks); `*_invalid_as_0` count an invalid episode as a failure.
    """
    found: dict[tuple[Any, ...], _Group] = {}
    for episode in episodes:
        if episode.ended_us is None and episode.invalid is None:
            continue
        key = tuple(getattr(episode, name) for name in by)
        if key not in found:
            found[key] = _Group({name: getattr(episode, name) for name in _FACTS})
        found[key].add(episode)
    return [found[key].row() for key in sorted(found, key=lambda key: [str(part) for part in key])]


def stored_episodes(
    paths: Iterable[Path], unfinished: list[RunSummary], unreadable: list[StorageError]
) -> Iterable[StoredEpisode]:
    """Yield the episodes of many runs. Runs that are not done are noted in `unfinished`, and those that
    cannot be read in `unreadable`: one damaged file hides no other run."""
    for path in paths:
        try:
            with RunReader(path) as reader:
                summary = reader.summary()
                if summary is not None and summary.done < summary.planned:
                    unfinished.append(summary)
                yield from reader.episodes()
        except StorageError as error:
            unreadable.append(error)
