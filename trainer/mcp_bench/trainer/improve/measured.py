"""What attempts are compared by: a measured score where all have the same one, else partial credit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from mcp_bench.servers.grading import Measure, Score
from mcp_bench.trainer.improve.gate import Scores

TIMES = ("s", "ms", "us", "µs", "ns")
"""Units of times."""


class Graded(NamedTuple):
    """The grade of an attempt."""

    partial: float
    strict: bool
    score: Score | None


def comparable(sides: Sequence[Mapping[str, Sequence[Graded]]]) -> tuple[list[Scores], Measure | None]:
    """Return the attempts as the gate takes them, by task, and what was measured; None is partial credit.

    A score counts as its merit, so more is better whatever its direction. Partial credit ends at 1, and a
    score goes on beyond the reference. An attempt that measured nothing counts as the baseline that other
    attempts at its task measured; where there is none, partial credit is compared.

    A time depends on what else the machine does, and arms are measured at different moments. So where each
    attempt has measured the baseline beside it, a time counts by its ratio to that, in units of the mean
    baseline of the task.

    Args:
        sides: attempts by task, of each arm.
    """
    scores = [
        (task, one.score) for side in sides for task, tries in side.items() for one in tries if one.score
    ]
    without = {
        task for side in sides for task, tries in side.items() if any(one.score is None for one in tries)
    }
    baselines: dict[str, list[float]] = {}
    for task, score in scores:
        if score.baseline is not None:
            baselines.setdefault(task, []).append(score.model_copy(update={"value": score.baseline}).merit)
    usual = {task: fmean(found) for task, found in baselines.items()}
    measures = {score.measure for _, score in scores}
    measure = next(iter(measures)) if len(measures) == 1 and without <= usual.keys() else None
    is_time = measure is not None and measure[1] in TIMES and all(score.baseline for _, score in scores)

    def value(task: str, one: Graded) -> float:
        if measure is None:
            return one.partial
        if one.score is None:
            return usual[task]
        if is_time and one.score.baseline:
            return usual[task] * one.score.value / one.score.baseline
        return one.score.merit

    return [
        {task: [(value(task, one), one.strict) for one in tries] for task, tries in side.items()}
        for side in sides
    ], measure
