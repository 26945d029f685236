"""Statistics of attempts at tasks: means with confidence intervals, pass@k and pass^k.

The unit is the task, not the episode: attempts at one task are not independent. (Miller 2024, "Adding
error bars to evals", arXiv:2411.00640, on why; Efron and Tibshirani 1993, chapter 8, on how.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import comb

import numpy as np
import numpy.typing as npt

Interval = tuple[float, float]

REPLICATES = 10_000
LEVEL = 0.95
_SEED = 20_170_427
_DRAWS_AT_ONCE = 1 << 15
"""Small enough that the linear algebra library does not wake its threads, which costs far more."""
_MOST_KEPT = 1 << 24
"""Draws, a byte each, that are worth keeping for the next row."""


def mean(total: float, count: int) -> float | None:
    """Return `total / count`, None where nothing was counted."""
    return total / count if count else None


def bootstrap(sums: Sequence[Sequence[float]], weights: Sequence[float]) -> list[Interval] | None:
    """Return the 95 % percentile intervals of ratios of sums, by a clustered bootstrap.

    `sums` has a row for each task with the sums of m scores over its episodes, `weights` the number of
    its episodes; the m ratios are `sum(sums) / sum(weights)`. Whole tasks are drawn with replacement,
    `REPLICATES` times, from a generator with a fixed seed: the same rows in the same order give the same
    intervals. None with fewer than two tasks: one task says nothing about the spread between tasks.
    """
    tasks = len(weights)
    if tasks < 2:
        return None
    values = np.column_stack([np.asarray(sums, dtype=float), np.asarray(weights, dtype=float)])
    drawn = _kept(tasks) if tasks * REPLICATES <= _MOST_KEPT else _drawn(tasks)
    totals = np.concatenate([times.astype(float) @ values for times in drawn])
    tail = (1 - LEVEL) / 2
    ratios = totals[:, :-1] / totals[:, -1:]
    # rounded, so that the order in which a machine sums floats does not show
    low, high = np.quantile(ratios, [tail, 1 - tail], axis=0, method="nearest").round(12)
    return list(zip(low.tolist(), high.tolist(), strict=True))


def _drawn(tasks: int) -> Iterator[npt.NDArray[np.uint8]]:
    """Yield how often each task is drawn, shape (some replicates, tasks), for all replicates."""
    generator = np.random.default_rng(_SEED)
    at_once = max(1, _DRAWS_AT_ONCE // tasks)
    for start in range(0, REPLICATES, at_once):
        replicates = min(at_once, REPLICATES - start)
        picks = generator.integers(0, tasks, (replicates, tasks))
        picks += np.arange(replicates)[:, None] * tasks
        times = np.bincount(picks.ravel(), minlength=replicates * tasks)
        yield times.reshape(replicates, tasks).astype(np.uint8)


@lru_cache(maxsize=4)
def _kept(tasks: int) -> list[npt.NDArray[np.uint8]]:
    # rows of a report often have equally many tasks
    return list(_drawn(tasks))


def pass_at_k(attempts: int, solved: int, k: int) -> float:
    """Return the chance that at least one of `k` attempts solves a task that `solved` of `attempts` did.

    The unbiased estimate of Chen et al. 2021, "Evaluating large language models trained on code",
    arXiv:2107.03374. Needs `k <= attempts`.
    """
    return 1 - comb(attempts - solved, k) / comb(attempts, k)


def pass_hat_k(attempts: int, solved: int, k: int) -> float:
    """Return the chance that all of `k` attempts solve a task that `solved` of `attempts` did: pass^k of
    Yao et al. 2024, "tau-bench", arXiv:2406.12045. Needs `k <= attempts`."""
    return comb(solved, k) / comb(attempts, k)


@dataclass(frozen=True, slots=True)
class PassK:
    """Means over the `tasks` with at least `k` attempts, with intervals (None for a single task)."""

    k: int
    tasks: int
    pass_at_k: float
    pass_at_k_ci: Interval | None
    pass_hat_k: float
    pass_hat_k_ci: Interval | None


def pass_k(counts: Sequence[tuple[int, int]]) -> list[PassK]:
    """Return pass@k and pass^k from `(attempts, solved)` of each task; nothing where no task was tried
    twice. `k` is 1, 2, 4, ... and the largest number of attempts."""
    most = max((attempts for attempts, _ in counts), default=0)
    if most < 2:
        return []
    return [_pass_k(counts, k) for k in sorted({1 << power for power in range(most.bit_length())} | {most})]


def _pass_k(counts: Sequence[tuple[int, int]], k: int) -> PassK:
    shares = [
        (pass_at_k(attempts, solved, k), pass_hat_k(attempts, solved, k))
        for attempts, solved in counts
        if attempts >= k
    ]
    at, hat = (sum(share) / len(shares) for share in zip(*shares, strict=True))
    intervals = bootstrap(shares, [1] * len(shares)) or (None, None)
    return PassK(k, len(shares), at, intervals[0], hat, intervals[1])
