"""Scores of the recorded episodes, grouped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any

from mcp_bench.recorder.errors import StorageError
from mcp_bench.recorder.scores.statistics import bootstrap, mean, pass_k
from mcp_bench.recorder.scores.totals import Tally, finished
from mcp_bench.recorder.store.reader import RunReader, RunSummary, StoredEpisode
from mcp_bench.servers.errors import UnknownNameError

GROUPS = ("agent", "model", "benchmark", "split", "domain")
SEVERAL = "*"
"""Stands in a row for a field that has more than one value and was not grouped by."""

_FACTS = (*GROUPS, "benchmark_version", "agent_version", "isolation", "home", "tools_mode")
_facts_of = attrgetter(*_FACTS)


@dataclass
class _Group:
    facts: tuple[Any, ...]
    """In the order of `_FACTS`."""
    tally: Tally = field(default_factory=Tally)

    def add(self, episode: StoredEpisode) -> None:
        found = _facts_of(episode)
        if found != self.facts:
            pairs = zip(self.facts, found, strict=True)
            self.facts = tuple(value if value == other else SEVERAL for value, other in pairs)
        self.tally.add(episode)

    def row(self) -> dict[str, Any]:
        tally = self.tally
        tasks = tally.graded().values()
        partial = sum(task.partial for task in tasks)
        strict = sum(task.strict for task in tasks)
        graded = sum(task.episodes for task in tasks)
        with_invalid = graded + tally.invalid.total()
        intervals = bootstrap(
            [(task.partial, task.strict) for task in tasks], [task.episodes for task in tasks]
        )
        return {
            **dict(zip(_FACTS, self.facts, strict=True)),
            **tally.counts(),
            "tasks": len(tasks),
            "partial": mean(partial, graded),
            "partial_ci": intervals and list(intervals[0]),
            "strict": mean(strict, graded),
            "strict_ci": intervals and list(intervals[1]),
            "partial_invalid_as_0": mean(partial, with_invalid),
            "strict_invalid_as_0": mean(strict, with_invalid),
            "pass_k": self._pass_k(),
            "tool_calls_per_episode": mean(tally.calls, tally.episodes),
            **{name: tally.usage.get(name) for name in ("input_tokens", "output_tokens", "cost_usd")},
        }

    def _pass_k(self) -> list[dict[str, Any]]:
        # attempts of several agents are no attempts of one
        if SEVERAL in self.facts[: GROUPS.index("benchmark")]:
            return []
        return [
            asdict(row)
            for row in pass_k([(task.episodes, task.strict) for task in self.tally.graded().values()])
        ]


def usual_attempts(row: dict[str, Any]) -> dict[str, Any] | None:
    """Return the entry of a row's `pass_k` to show first: of the largest k that most of its tasks have."""
    common = [entry for entry in row["pass_k"] if entry["k"] > 1 and 2 * entry["tasks"] > row["tasks"]]
    return common[-1] if common else None


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

    `partial` and `strict` are means over valid graded episodes, with 95 % intervals (None with fewer
    than two tasks); `*_invalid_as_0` count an invalid episode as a failure. `pass_k` is about the
    strict grade of valid attempts: empty where no task was tried twice, or where the row holds several
    agents or models.
    """
    found: dict[tuple[Any, ...], _Group] = {}
    for episode in filter(finished, episodes):
        key = tuple(getattr(episode, name) for name in by)
        if key not in found:
            found[key] = _Group(_facts_of(episode))
        found[key].add(episode)
    return [found[key].row() for key in sorted(found, key=lambda key: [str(part) for part in key])]


def stored_episodes(
    paths: Iterable[Path], unfinished: list[RunSummary], unreadable: list[StorageError]
) -> Iterator[StoredEpisode]:
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
