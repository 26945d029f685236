"""Statistics of attempts at tasks: means with confidence intervals, pass@k and pass^k.

The unit of resampling is the task, not the episode, because attempts at one task are not independent
(Miller 2024, "Adding error bars to evals", arXiv:2411.00640). For the method see Efron and Tibshirani
1993, "An introduction to the bootstrap", chapter 8.
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
"""Larger batches would start the linear algebra library's threads, which costs far more."""
_MOST_KEPT = 1 << 24
"""Cache at most this many draws (1 byte each) for the next row."""


def mean(total: float, count: int) -> float | None:
    """Return `total / count`, or None if `count` is 0."""
    return total / count if count else None


def bootstrap(sums: Sequence[Sequence[float]], weights: Sequence[float]) -> list[Interval] | None:
    """Return 95 % percentile intervals of ratios of sums, by a clustered bootstrap.

    Each of the `REPLICATES` replicates draws whole tasks with replacement. The generator has a fixed
    seed, so the same rows in the same order give the same intervals.

    Args:
        sums: for each task, the sums of m scores over its episodes; shape (tasks, m).
        weights: the number of episodes of each task.

    Returns:
        An interval for each of the m ratios `sum(sums) / sum(weights)`, or None with fewer than two
        tasks, since one task says nothing about the spread between tasks.
    """
    tasks = len(weights)
    if tasks < 2:
        return None
    values = np.column_stack([np.asarray(sums, dtype=float), np.asarray(weights, dtype=float)])
    drawn = _kept(tasks) if tasks * REPLICATES <= _MOST_KEPT else _drawn(tasks)
    totals = np.concatenate([times.astype(float) @ values for times in drawn])
    tail = (1 - LEVEL) / 2
    ratios = totals[:, :-1] / totals[:, -1:]
    # round away differences from the order in which a machine sums floats
    low, high = np.quantile(ratios, [tail, 1 - tail], axis=0, method="nearest").round(12)
    return list(zip(low.tolist(), high.tolist(), strict=True))


def _drawn(tasks: int) -> Iterator[npt.NDArray[np.uint8]]:
    """Yield batches of draw counts, each of shape (replicates in the batch, tasks)."""
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
    # rows of a report often have the same number of tasks
    return list(_drawn(tasks))


def pass_at_k(attempts: int, solved: int, k: int) -> float:
    """Estimate the probability that at least one of `k` attempts solves the task.

    The unbiased estimator of Chen et al. 2021, "Evaluating large language models trained on code",
    arXiv:2107.03374. Requires `k <= attempts`.
    """
    return 1 - comb(attempts - solved, k) / comb(attempts, k)


def pass_hat_k(attempts: int, solved: int, k: int) -> float:
    """Estimate the probability that all of `k` attempts solve the task.

    This is pass^k of Yao et al. 2024, "tau-bench", arXiv:2406.12045. Requires `k <= attempts`.
    """
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
    """Return pass@k and pass^k for k = 1, 2, 4, ... and the largest number of attempts.

    Args:
        counts: `(attempts, solved)` of each task.

    Returns:
        One entry for each k; empty if no task was tried twice.
    """
    most = max((attempts for attempts, _ in counts), default=0)
    if most < 2:
        return []
    usual = sorted(attempts for attempts, _ in counts)[(len(counts) - 1) // 2]  # more than half have as many
    ks = {1 << power for power in range(most.bit_length())} | {most, max(1, usual)}
    return [_pass_k(counts, k) for k in sorted(ks)]


def _pass_k(counts: Sequence[tuple[int, int]], k: int) -> PassK:
    shares = [
        (pass_at_k(attempts, solved, k), pass_hat_k(attempts, solved, k))
        for attempts, solved in counts
        if attempts >= k
    ]
    at, hat = (sum(share) / len(shares) for share in zip(*shares, strict=True))
    intervals = bootstrap(shares, [1] * len(shares)) or (None, None)
    return PassK(k, len(shares), at, intervals[0], hat, intervals[1])
