"""What a run scored, and what changed from one to the other."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from mcp_bench.recorder.comparison import compare
from mcp_bench.recorder.reader import StoredEpisode, run_paths
from mcp_bench.recorder.report import report, stored_episodes
from mcp_bench.recorder.tally import finished
from mcp_bench.servers.errors import BenchError

SPLITS = ("dev", "test")
"""What models are measured on."""
SCORES = (
    *("episodes", "invalid", "tasks", "partial", "partial_ci", "strict", "strict_ci"),
    *("partial_invalid_as_0", "strict_invalid_as_0"),
)


def scores(run: str) -> dict[str, Any]:
    """Return mean partial and strict of a run with 95 % intervals, and the same for families of tasks.

    A family is a task's id to its first dot; by it go the tasks of one level, where the next part is one.
    """
    return _scores(run, episodes_of(run))


def scores_by_group(run: str, trained: Collection[str]) -> dict[str, Any]:
    """Return the same, and for groups of families: those of one level, and apart from each other families of
    which a task is in `trained` and those never seen."""
    seen = {task.partition(".")[0] for task in trained}
    episodes = episodes_of(run)

    def group(task: str) -> str:
        name, level = _family(task)
        words = [f"level {level}"] if level else []
        return ", ".join([*words, "trained families" if name in seen else "new families"])

    return {**_scores(run, episodes), "groups": _each(episodes, group)}


def flips(before: str, after: str) -> dict[str, Any]:
    """Return the paired difference of two runs on the tasks that both have, and the tasks that flipped."""
    [row] = compare([*episodes_of(before), *episodes_of(after)], f"run={before}", f"run={after}", ())["rows"]
    turned = {kind: [flip["task"] for flip in found] for kind, found in row["flips"].items()}
    return {
        "common_tasks": row["common_tasks"],
        "partial": row["partial"],
        "strict": row["strict"],
        **turned,
    }


def _scores(run: str, episodes: Sequence[StoredEpisode]) -> dict[str, Any]:
    families = _each(episodes, lambda task: ".".join(filter(None, _family(task))))
    return {"run": run, **_row(report(episodes, ())), "families": families}


def episodes_of(run: str) -> list[StoredEpisode]:
    """Return the episodes of a run.

    Raises:
        BenchError: it cannot be read.
    """
    unreadable: list[Any] = []
    found = list(stored_episodes(run_paths([run]), [], unreadable))
    if unreadable:
        raise BenchError(str(unreadable[0]))
    return found


def _family(task: str) -> tuple[str, str]:
    """Return the name of a task's family, and its level, if it has one."""
    name, _, rest = task.partition(".")
    level = rest.partition(".")[0]
    return name, level if level.isdecimal() else ""


def _each(episodes: Iterable[StoredEpisode], name: Callable[[str], str]) -> dict[str, dict[str, Any]]:
    found: dict[str, list[StoredEpisode]] = {}
    for episode in filter(finished, episodes):
        found.setdefault(name(episode.task), []).append(episode)
    return {key: _row(report(found[key], ())) for key in sorted(found)}


def _row(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {name: rows[0][name] if rows else None for name in SCORES}
