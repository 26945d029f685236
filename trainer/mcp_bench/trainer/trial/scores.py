"""Scores of a run, and the changes between two runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from mcp_bench.recorder.runs.find import run_paths
from mcp_bench.recorder.runs.reader import StoredEpisode
from mcp_bench.recorder.scores.comparison import compare
from mcp_bench.recorder.scores.scores import stored_episodes, summarise
from mcp_bench.recorder.scores.task_names import family, level
from mcp_bench.recorder.scores.totals import cut_short, finished
from mcp_bench.servers.errors import BenchError

MEASURED = ("dev", "test")
"""The splits that models are measured on."""
SCORES = (
    *("episodes", "invalid", "tasks", "partial", "partial_ci", "strict", "strict_ci"),
    *("partial_invalid_as_0", "strict_invalid_as_0"),
)


def scores(run: str) -> dict[str, Any]:
    """Return the mean partial and strict scores of a run with 95 % intervals, in total and by family.

    Families are divided by level, if tasks have levels.
    """
    return _scores(run, episodes_of(run))


def scores_by_group(run: str, trained: Collection[str]) -> dict[str, Any]:
    """Return `scores(run)` with additional scores by group.

    Groups are levels, each divided into families with a task in `trained` and other families.
    """
    seen = {family(task, task) for task in trained}
    episodes = episodes_of(run)

    def group(task: str) -> str:
        number = level(task)
        words = [] if number is None else [f"level {number}"]
        return ", ".join([*words, "trained families" if family(task, task) in seen else "new families"])

    return {**_scores(run, episodes), "groups": _each(episodes, group)}


def flips(before: str, after: str) -> dict[str, Any]:
    """Return the paired differences of two runs on their common tasks, and the flipped tasks."""
    [row] = compare([*episodes_of(before), *episodes_of(after)], f"run={before}", f"run={after}", ())["rows"]
    turned = {kind: [flip["task"] for flip in found] for kind, found in row["flips"].items()}
    return {
        "common_tasks": row["common_tasks"],
        "partial": row["partial"],
        "strict": row["strict"],
        **turned,
    }


def _scores(run: str, episodes: Sequence[StoredEpisode]) -> dict[str, Any]:
    rows = summarise(episodes, ())
    return {
        "run": run,
        **_row(rows),
        "cut_short": cut_short(rows[0]) if rows else {},
        "families": _each(episodes, _family),
    }


def episodes_of(run: str) -> list[StoredEpisode]:
    """Return the episodes of a run.

    Raises:
        BenchError: the run cannot be read.
    """
    unreadable: list[Any] = []
    found = list(stored_episodes(run_paths([run]), [], unreadable))
    if unreadable:
        raise BenchError(str(unreadable[0]))
    return found


def _family(task: str) -> str:
    """Return the name of a task's family with the task's level, if it has one."""
    number = level(task)
    return family(task, task) + ("" if number is None else f".{number}")


def _each(episodes: Iterable[StoredEpisode], name: Callable[[str], str]) -> dict[str, dict[str, Any]]:
    found: dict[str, list[StoredEpisode]] = {}
    for episode in filter(finished, episodes):
        found.setdefault(name(episode.task), []).append(episode)
    return {key: _row(summarise(found[key], ())) for key in sorted(found)}


def _row(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {name: rows[0][name] if rows else None for name in SCORES}
