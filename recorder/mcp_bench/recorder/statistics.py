"""Means and their confidence intervals, from per-task sums.

Attempts at one task are not independent, so whole tasks are drawn, not episodes (a clustered
bootstrap: Efron and Tibshirani 1993, chapter 8; Miller 2024, arXiv:2411.00640, on why for evals).
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

Interval = tuple[float, float]

_REPLICATES = 2000
_LEAST_REPLICATES = 400
_DRAWS = 1_000_000
"""Rough number of random draws for one row: keeps a report of thousands of tasks within seconds."""


@dataclass(slots=True)
class TaskSum:
    """Scores of all graded episodes of one task."""

    episodes: int = 0
    partial: float = 0.0
    strict: int = 0

    def add(self, partial: float, strict: bool) -> None:
        self.episodes += 1
        self.partial += partial
        self.strict += strict


def mean(total: float, count: int) -> float | None:
    return total / count if count else None


def bootstrap(tasks: Mapping[str, TaskSum], *, seed: str) -> tuple[Interval, Interval] | None:
    """Return the 95 % percentile intervals of the means of partial and strict, each within 0..1.

    The same tasks and seed give the same answer. None with fewer than two tasks: one task says
    nothing about the spread between tasks.
    """
    if len(tasks) < 2:
        return None
    sums = [tasks[name] for name in sorted(tasks)]
    replicates = min(_REPLICATES, max(_LEAST_REPLICATES, _DRAWS // len(sums)))
    generator = random.Random(seed)  # noqa: S311 - statistics, not secrets
    partial: list[float] = []
    strict: list[float] = []
    for _ in range(replicates):
        drawn = generator.choices(sums, k=len(sums))
        episodes = sum([task.episodes for task in drawn])
        partial.append(sum([task.partial for task in drawn]) / episodes)
        strict.append(sum([task.strict for task in drawn]) / episodes)
    return _percentiles(partial), _percentiles(strict)


def _percentiles(values: list[float]) -> Interval:
    ordered = sorted(values)
    last = len(ordered) - 1
    return ordered[round(0.025 * last)], ordered[round(0.975 * last)]
