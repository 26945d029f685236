"""Calls, errors and latencies of each tool over some runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from mcp_bench.bridge.viewer.conversation import OUTCOMES
from mcp_bench.recorder.errors import StorageError
from mcp_bench.recorder.runs.reader import RunReader


@dataclass(slots=True)
class ToolTotals:
    """What one tool was used for. Times are milliseconds from request to response, at our end of the wire."""

    name: str
    calls: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    """Number of calls by what went wrong."""
    episodes: set[str] = field(default_factory=set)
    times: list[float] = field(default_factory=list)
    example: tuple[str, str] | None = None
    """Run and episode of a call that failed."""

    @property
    def failed(self) -> int:
        return self.outcomes.total()

    def quantile(self, share: float) -> float | None:
        return float(np.quantile(self.times, share)) if self.times else None


def totals(paths: Sequence[Path]) -> list[ToolTotals]:
    """Return the totals of each tool, the most used first. Runs that cannot be read are left out."""
    found: dict[str, ToolTotals] = {}
    for path in paths:
        try:
            with RunReader(path) as reader:
                for episode, name, outcome, milliseconds in reader.call_outcomes():
                    tool = found.setdefault(name, ToolTotals(name))
                    tool.calls += 1
                    tool.episodes.add(episode)
                    if outcome != "ok":
                        tool.outcomes[OUTCOMES.get(outcome or "", "not ended")] += 1
                        tool.example = tool.example or (path.name, episode)
                    if milliseconds is not None:
                        tool.times.append(milliseconds)
        except StorageError:
            continue
    return sorted(found.values(), key=lambda tool: -tool.calls)
