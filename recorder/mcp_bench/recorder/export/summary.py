"""What an export tells of the episodes in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from mcp_bench.recorder.store.reader import StoredEpisode
from mcp_bench.recorder.taint import verified

NAMES = ("benchmark", "benchmark_version", "split", "agent", "model")


@dataclass
class Exported:
    """The episodes of which rows were made, in order."""

    episodes: list[str] = field(default_factory=list)
    runs: dict[str, dict[str, str]] = field(default_factory=dict)
    _groups: dict[tuple[str | None, ...], dict[str, Any]] = field(default_factory=dict)

    def add(self, episode: StoredEpisode) -> None:
        self.episodes.append(episode.id)
        self.runs.setdefault(episode.run, _source(episode))
        key = tuple(getattr(episode, name) for name in NAMES)
        counts = self._groups.setdefault(
            key, dict.fromkeys(("episodes", "strict", "partial", "clean", "tainted", "verified"), 0)
        )
        counts["episodes"] += 1
        counts["strict"] += bool(episode.strict)
        counts["partial"] += episode.partial or 0.0
        counts["verified"] += verified(episode)
        if episode.taint in counts:
            counts[episode.taint] += 1

    def counts(self) -> list[dict[str, Any]]:
        """Return how many episodes there are of each benchmark, version, split, agent and model, and how good
        they are: `partial` is a mean."""
        return [
            {
                **dict(zip(NAMES, key, strict=True)),
                **found,
                "partial": round(found["partial"] / found["episodes"], 6),
            }
            for key, found in sorted(self._groups.items(), key=lambda group: [str(part) for part in group[0]])
        ]


def _source(episode: StoredEpisode) -> dict[str, str]:
    return {
        "benchmark": episode.benchmark,
        "benchmark_version": episode.benchmark_version,
        "grader_version": episode.grader_version or "",
        "agent": episode.agent,
        "agent_version": episode.agent_version,
    }
