"""A competition: data with and without labels, a metric, and medals. The shape is that of MLE-bench
(https://arxiv.org/abs/2410.07095)."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

MEDALS = {"bronze": 0.5, "silver": 0.75, "gold": 0.9}
"""How far from the baseline to the best possible score each begins."""


@dataclass(frozen=True)
class Metric:
    """How predictions are scored against the truth."""

    name: str
    better: Literal["higher", "lower"]
    unit: str
    score: Callable[[Sequence[float], Sequence[float]], float]
    """Of predictions and truth, of equal length."""
    lowest: float = -math.inf
    highest: float = math.inf
    """A prediction outside is refused."""


@dataclass(frozen=True)
class Data:
    """What one task has. The first rows are for training."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    truth: tuple[float, ...]
    """By row."""
    best: tuple[float, ...]
    """By row: what the generator would predict, which knows everything but the noise."""
    trained: int

    @property
    def asked(self) -> dict[str, float]:
        """The truth of the rows to predict, by id."""
        return {f"r{at}": value for at, value in enumerate(self.truth[self.trained :])}


@dataclass(frozen=True)
class Competition:
    """A kind of tasks."""

    title: str
    about: str
    target: str
    metric: Metric
    draw: Callable[[random.Random], Data]
    solution: str
    """A Python program that reaches gold, in the folder of the data."""

    def baseline(self, data: Data) -> float:
        """Return the score of predicting the mean of the training labels everywhere."""
        known = data.truth[: data.trained]
        truth = data.truth[data.trained :]
        return self.metric.score([sum(known) / len(known)] * len(truth), truth)

    def thresholds(self, data: Data) -> dict[str, float]:
        """Return the score at which each medal begins."""
        start = self.baseline(data)
        best = self.metric.score(data.best[data.trained :], data.truth[data.trained :])
        return {medal: start + share * (best - start) for medal, share in MEDALS.items()}


def rmse(predicted: Sequence[float], truth: Sequence[float]) -> float:
    """Return the root of the mean squared error."""
    squares = (min(abs(one - other), 1e100) ** 2 for one, other in zip(predicted, truth, strict=True))
    return math.sqrt(sum(squares) / len(truth))


def log_loss(predicted: Sequence[float], truth: Sequence[float]) -> float:
    """Return the mean negative logarithm of the truth's probability; probabilities are clipped to 1e-6."""
    clipped = [min(max(one, 1e-6), 1 - 1e-6) for one in predicted]
    losses = (math.log(p if y else 1 - p) for p, y in zip(clipped, truth, strict=True))
    return -sum(losses) / len(truth)


def auc(predicted: Sequence[float], truth: Sequence[float]) -> float:
    """Return the area under the ROC curve: how often a positive is above a negative; ties count half."""
    order = sorted(range(len(predicted)), key=predicted.__getitem__)
    ranks = [0.0] * len(order)
    start = 0
    while start < len(order):
        end = start
        while end < len(order) and predicted[order[end]] == predicted[order[start]]:
            end += 1
        for at in order[start:end]:
            ranks[at] = (start + 1 + end) / 2
        start = end
    positives = sum(map(bool, truth))
    above = (
        sum(rank for rank, label in zip(ranks, truth, strict=True) if label) - positives * (positives + 1) / 2
    )
    return above / (positives * (len(truth) - positives))
