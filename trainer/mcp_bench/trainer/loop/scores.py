"""What a run scored, and what changed from one to the other."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mcp_bench.recorder.comparison import compare
from mcp_bench.recorder.reader import StoredEpisode, run_paths
from mcp_bench.recorder.report import report, stored_episodes
from mcp_bench.recorder.tally import finished
from mcp_bench.servers.errors import BenchError

SCORES = ("episodes", "invalid", "tasks", "partial", "partial_ci", "strict", "strict_ci")


def scores(run: str) -> dict[str, Any]:
    """Return mean partial and strict of a run with 95 % intervals, and the same for each family of tasks.

    A family is a task's id to its first dot, and to its second where the next part is a level.
    """
    episodes = _episodes(run)
    rows = report(episodes, ())
    families = {name: _row(report(group, ())) for name, group in _families(episodes).items()}
    return {"run": run, **_row(rows), "families": families}


def flips(before: str, after: str) -> dict[str, Any]:
    """Return the paired difference of two runs on the tasks that both have, and the tasks that flipped."""
    [row] = compare([*_episodes(before), *_episodes(after)], f"run={before}", f"run={after}", ())["rows"]
    turned = {kind: [flip["task"] for flip in found] for kind, found in row["flips"].items()}
    return {
        "common_tasks": row["common_tasks"],
        "partial": row["partial"],
        "strict": row["strict"],
        **turned,
    }


def _episodes(run: str) -> list[StoredEpisode]:
    unreadable: list[Any] = []
    found = list(stored_episodes(run_paths([run]), [], unreadable))
    if unreadable:
        raise BenchError(str(unreadable[0]))
    return found


def _families(episodes: Iterable[StoredEpisode]) -> dict[str, list[StoredEpisode]]:
    found: dict[str, list[StoredEpisode]] = {}
    for episode in filter(finished, episodes):
        name, *rest = episode.task.split(".")
        level = f".{rest[0]}" if rest and rest[0].isdecimal() else ""
        found.setdefault(name + level, []).append(episode)
    return dict(sorted(found.items()))


def _row(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {name: rows[0][name] if rows else None for name in SCORES}
