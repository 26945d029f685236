"""Scores of the recorded episodes, grouped."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from mcp_bench.recorder.errors import StorageError
from mcp_bench.recorder.runs.find import check_no_copy
from mcp_bench.recorder.runs.reader import RunReader, StoredEpisode
from mcp_bench.recorder.runs.run_summary import RunSummary
from mcp_bench.recorder.scores.conditions import CONDITIONS, values_of
from mcp_bench.recorder.scores.statistics import bootstrap, mean, pass_k
from mcp_bench.recorder.scores.totals import Totals, finished
from mcp_bench.recorder.trajectory import Usage
from mcp_bench.servers.errors import UnknownNameError
from mcp_bench.servers.grading import measured

GROUPS = ("agent", "model", "benchmark", "split", "domain")
SEVERAL = "*"
"""The value of a field that differs within a row and was not grouped by."""

_FACTS = (*GROUPS, "benchmark_version", "agent_version", *CONDITIONS)
_ALIKE = (0, 1, *range(len(_FACTS) - len(CONDITIONS), len(_FACTS)))
"""Positions in `_FACTS` of what repeated attempts must share: agent, model and conditions."""


@dataclass
class _Group:
    facts: tuple[Any, ...]
    """In the order of `_FACTS`."""
    totals: Totals = field(default_factory=Totals)

    def add(self, episode: StoredEpisode) -> None:
        found = values_of(episode, _FACTS)
        if found != self.facts:
            pairs = zip(self.facts, found, strict=True)
            self.facts = tuple(value if value == other else SEVERAL for value, other in pairs)
        self.totals.add(episode)

    def row_facts(self) -> dict[str, Any]:
        return dict(zip(_FACTS, self.facts, strict=True))

    def row(self) -> dict[str, Any]:
        totals = self.totals
        tasks = totals.graded().values()
        partial = sum(task.partial for task in tasks)
        strict = sum(task.strict for task in tasks)
        graded = sum(task.episodes for task in tasks)
        with_invalid = graded + totals.invalid.total()
        intervals = bootstrap(
            [(task.partial, task.strict, task.score) for task in tasks], [task.episodes for task in tasks]
        )
        measure = totals.measure()
        return {
            **self.row_facts(),
            **totals.counts(),
            "tasks": len(tasks),
            "partial": mean(partial, graded),
            "partial_ci": intervals and list(intervals[0]),
            "strict": mean(strict, graded),
            "strict_ci": intervals and list(intervals[1]),
            "score": measure
            and {
                **dict(zip(("name", "unit", "better"), measure, strict=True)),
                "mean": mean(sum(task.score for task in tasks), graded),
                "ci": intervals and list(intervals[2]),
            },
            "partial_invalid_as_0": mean(partial, with_invalid),
            "strict_invalid_as_0": mean(strict, with_invalid),
            "pass_k": self._pass_k(),
            "solved": strict,
            "tool_calls_per_episode": mean(totals.calls, totals.episodes),
            "seconds": totals.seconds,
            "seconds_per_episode": mean(totals.seconds, totals.timed),
            **{name: totals.usage.get(name) for name in Usage.model_fields},
            "cost_per_solved_usd": totals.cost_per_solved(),
            "roles_cost_usd": totals.roles_usd,
            "runs": sorted(totals.runs),
            "run_tags": sorted({tag for tags, _ in totals.runs.values() for tag in tags}),
            "run_notes": {run: note for run, (_, note) in sorted(totals.runs.items()) if note},
        }

    def _pass_k(self) -> list[dict[str, Any]]:
        # pass@k is about repeated attempts of a single agent under the same conditions
        if SEVERAL in [self.facts[at] for at in _ALIKE] or mixes_versions(self.row_facts()):
            return []
        return [
            asdict(row)
            for row in pass_k([(task.episodes, task.strict) for task in self.totals.graded().values()])
        ]


def mixes_versions(row: Mapping[str, Any]) -> bool:
    """Return whether a row has episodes of several versions of a benchmark: tasks or grades may differ."""
    return bool(row["benchmark_version"] == SEVERAL and row["benchmark"] != SEVERAL)


def usual_attempts(row: dict[str, Any]) -> dict[str, Any] | None:
    """Return the entry of `pass_k` with the largest k > 1 that most tasks of the row have, if any."""
    common = [entry for entry in row["pass_k"] if entry["k"] > 1 and 2 * entry["tasks"] > row["tasks"]]
    return common[-1] if common else None


def measured_score(score: Mapping[str, Any] | None) -> str:
    """Return the `score` of a row in words, such as `latency 4.5 ms [4, 5.2]`."""
    if score is None:
        return ""
    interval = f" [{score['ci'][0]:.4g}, {score['ci'][1]:.4g}]" if score["ci"] else ""
    return measured(score["name"], score["mean"], score["unit"]) + interval


def groups(by: str) -> list[str]:
    """Parse a comma-separated `--by` value. A name that is there twice counts once.

    Raises:
        UnknownNameError: a name is not in `GROUPS`.
    """
    names = list(dict.fromkeys(name.strip() for name in by.split(",") if name.strip()))
    for name in names:
        if name not in GROUPS:
            raise UnknownNameError("group", name, GROUPS)
    return names


def summarise(episodes: Iterable[StoredEpisode], by: Sequence[str]) -> list[dict[str, Any]]:
    """Return one row for each group, sorted. Running episodes are left out.

    `partial` and `strict` are means over valid graded episodes, with 95 % intervals (None with fewer
    than two tasks). `score` is the mean of what was measured, None unless all graded episodes measured the
    same in the same unit. `*_invalid_as_0` score invalid episodes as 0. `pass_k` uses the strict grades of
    valid attempts. It is empty if no task was tried twice or if the row mixes agents, models or conditions.
    """
    found: dict[tuple[Any, ...], _Group] = {}
    for episode in filter(finished, episodes):
        key = values_of(episode, by)
        if key not in found:
            found[key] = _Group(values_of(episode, _FACTS))
        found[key].add(episode)
    return [found[key].row() for key in sorted(found, key=lambda key: [str(part) for part in key])]


def stored_episodes(
    paths: Iterable[Path], unfinished: list[RunSummary], unreadable: list[StorageError]
) -> Generator[StoredEpisode]:
    """Yield the episodes of many runs. Close the generator: a run is open in between.

    One damaged file does not hide the other runs.

    Args:
        paths: folders of the runs.
        unfinished: collects the runs that are not complete.
        unreadable: collects the errors of the runs that cannot be read.
    """
    for path in paths:
        try:
            with RunReader(path) as reader:
                summary = reader.summary()
                if summary is not None:
                    check_no_copy(path, summary.id)
                if summary is not None and summary.done < summary.planned:
                    unfinished.append(summary)
                yield from reader.episodes()
        except StorageError as error:
            unreadable.append(error)
