"""What samples say: a metric with its interval, gain over the baseline, and progress towards the reference.

All candidates answered the same items. Clocks are compared pair by pair. Otherwise, each draw of a bootstrap
takes the same items of all candidates (Efron and Tibshirani, "An Introduction to the Bootstrap", 1993).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from mcp_bench.servers.base_model import Model
from mcp_bench.servers.errors import BenchError
from mcp_bench.servers.improve.task_file import Metric

DRAWS = 4000
LEAST = 1e-9
"""Of a value whose logarithm is taken: a perfect candidate can have a loss of 0."""
LEVEL = 0.95
Samples = Mapping[str, Sequence[float]]
"""By candidate, a value for each item, in the order of the items."""
BASELINE, REFERENCE, CANDIDATE = "baseline", "reference", "candidate"
_Array = NDArray[np.float64]


class Estimate(Model):
    """A number with its 95 % interval."""

    value: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2


def value(metric: Metric, samples: Samples, name: str, *, clock: bool) -> Estimate:
    """Return the metric of one candidate, in its unit."""
    items = np.asarray(samples[name], float)
    return _median(items) if clock else _estimate(*_metrics(metric, items, _draws(len(items))))


def gain(metric: Metric, samples: Samples, name: str, *, clock: bool) -> Estimate:
    """Return how much better a candidate is than the baseline: by `scale`, a log-ratio or a difference.

    Above 0 is better, in both directions of the metric.
    """
    return _median(_logs(samples, name)) if clock else _estimate(*_gains(metric, samples, name))


def progress(metric: Metric, samples: Samples, name: str, *, clock: bool) -> Estimate:
    """Return how far a candidate is from the baseline (0) to the reference (1). It can be beyond both.

    Raises:
        BenchError: the reference is not better than the baseline on these items.
    """
    if clock:
        found, best = _median(_logs(samples, name)), float(np.median(_logs(samples, REFERENCE)))
        _check_reference(best)
        return Estimate(value=found.value / best, low=found.low / best, high=found.high / best)
    (whole, draws), (best, bests) = (_gains(metric, samples, one) for one in (name, REFERENCE))
    _check_reference(best)
    return _estimate(whole / best, draws / np.maximum(bests, best * 1e-3))


def _check_reference(gain: float) -> None:
    if not gain > 0:  # or it is no number
        raise BenchError(
            "the reference is not better than the baseline on these items, so nothing can be said of a "
            "candidate. Try the task: mcp-bench improve-task check"
        )


def smallest_gain(metric: Metric, samples: Samples, *, clock: bool) -> float:
    """Return `min_gain`, which is relative, on the scale of `gain`."""
    if metric.scale == "log":
        return float(np.log1p(metric.min_gain))
    return abs(value(metric, samples, BASELINE, clock=clock).value) * metric.min_gain


def _logs(samples: Samples, name: str) -> _Array:
    """Return for each pair the log of how many times faster the candidate was."""
    base, items = np.asarray(samples[BASELINE], float), np.asarray(samples[name], float)
    logs: _Array = np.log(np.maximum(base, LEAST) / np.maximum(items, LEAST))
    return logs


def _median(items: _Array) -> Estimate:
    """Return the median, with the interval between two order statistics.

    Its coverage is at least 95 % for any distribution and any number of items from 6 on (Conover, "Practical
    Nonparametric Statistics", 3.2), where a bootstrap of so few is too narrow.
    """
    ordered, number = np.sort(items), len(items)
    below = 0.0
    left_out = 0
    while (below := below + math.comb(number, left_out) / 2**number) <= (1 - LEVEL) / 2:
        left_out += 1
    edge = max(0, left_out - 1)
    return Estimate(
        value=float(np.median(ordered)), low=float(ordered[edge]), high=float(ordered[number - 1 - edge])
    )


def _gains(metric: Metric, samples: Samples, name: str) -> tuple[float, _Array]:
    base, items = np.asarray(samples[BASELINE], float), np.asarray(samples[name], float)
    draws = _draws(len(items))
    before, befores = _metrics(metric, base, draws)
    after, afters = _metrics(metric, items, draws)
    sign = 1.0 if metric.direction == "minimize" else -1.0
    if metric.scale == "log":
        whole = math.log(max(before, LEAST) / max(after, LEAST))
        return sign * whole, sign * np.log(np.maximum(befores, LEAST) / np.maximum(afters, LEAST))
    return sign * (before - after), sign * (befores - afters)


def _metrics(metric: Metric, items: _Array, draws: NDArray[np.int64]) -> tuple[float, _Array]:
    if metric.mean == "rms":
        return float(np.sqrt(np.mean(items**2))), np.sqrt(np.mean(items[draws] ** 2, axis=1))
    return float(np.mean(items)), np.mean(items[draws], axis=1)


def _draws(number: int) -> NDArray[np.int64]:
    """Return the same draws for all candidates of a measurement, shape (DRAWS, number)."""
    return np.random.default_rng(0).integers(number, size=(DRAWS, number))


def _estimate(whole: float, draws: _Array) -> Estimate:
    edge = (1 - LEVEL) / 2
    low, high = np.quantile(draws, [edge, 1 - edge])
    return Estimate(value=whole, low=float(low), high=float(high))
