"""Counts of the exported episodes, for the manifest and the dataset card."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from mcp_bench.recorder.runs.reader import StoredEpisode
from mcp_bench.recorder.scores.totals import Totals

NAMES = ("benchmark", "benchmark_version", "split", "agent", "model")


@dataclass
class Summary:
    """The episodes of which rows were made, in order."""

    episodes: list[str] = field(default_factory=list)
    runs: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Facts about each run, with its tags. Notes are left out: they are private."""
    _groups: dict[tuple[str | None, ...], Totals] = field(default_factory=dict)

    def add(self, episode: StoredEpisode) -> None:
        self.episodes.append(episode.id)
        self.runs.setdefault(episode.run, _source(episode))
        key = tuple(getattr(episode, name) for name in NAMES)
        self._groups.setdefault(key, Totals()).add(episode)

    def counts(self) -> list[dict[str, Any]]:
        """Return the number of episodes by benchmark, version, split, agent and model, and their scores.

        `strict` is a number of episodes, `partial` a mean.
        """
        return [
            {**dict(zip(NAMES, key, strict=True)), **_counts(totals)}
            for key, totals in sorted(
                self._groups.items(), key=lambda group: [str(part) for part in group[0]]
            )
        ]


def _counts(totals: Totals) -> dict[str, Any]:
    tasks = totals.graded().values()
    return {
        "episodes": totals.episodes,
        "strict": sum(task.strict for task in tasks),
        "partial": round(sum(task.partial for task in tasks) / totals.episodes, 6),
        "clean": totals.taints["clean"],
        "tainted": totals.taints["tainted"],
        "verified": totals.verified,
    }


def _source(episode: StoredEpisode) -> dict[str, Any]:
    tags = {"tags": list(episode.run_tags)} if episode.run_tags else {}
    return {
        "benchmark": episode.benchmark,
        "benchmark_version": episode.benchmark_version,
        "grader_version": episode.grader_version or "",
        "agent": episode.agent,
        "agent_version": episode.agent_version,
        **tags,
    }
