"""What harness and weights are worth on test, each alone and together. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from mcp_bench.recorder.scores.statistics import Interval, bootstrap
from mcp_bench.recorder.scores.task_names import family
from mcp_bench.trainer.improve.folder import Arm
from mcp_bench.trainer.improve.gate import Scores

NO_FAMILY = "other tasks"


@dataclass(frozen=True)
class Effect:
    """A difference of mean partial credit on the same tasks; `interval` is None with fewer than two."""

    name: str
    value: float
    interval: Interval | None
    tasks: int


def effects(cells: Mapping[Arm, Scores]) -> list[Effect]:
    """Return what each change alone and both together gain over the start, and their interaction.

    The interaction is what both together gain beyond the sum of their gains: above 0, they help each other.
    With fewer than four cells there is one change at most, and so one effect.

    Args:
        cells: graded attempts by task, of the first and last harness with the first and last weights.
    """
    start = Arm()
    if start not in cells:
        return []
    last = Arm(max(arm.harness for arm in cells), max(arm.weights for arm in cells))
    harness, weights = Arm(last.harness, 0), Arm(0, last.weights)
    wanted: list[tuple[str, list[tuple[Arm, int]]]] = [
        ("harness", [(harness, 1), (start, -1)]),
        ("weights", [(weights, 1), (start, -1)]),
        ("both", [(last, 1), (start, -1)]),
        ("interaction", [(last, 1), (harness, -1), (weights, -1), (start, 1)]),
    ]
    if not (last.harness and last.weights):
        wanted = [one for one in wanted[:2] if one[1][0][0] != start]
    found = (_effect(name, terms, cells) for name, terms in wanted if all(arm in cells for arm, _ in terms))
    return [effect for effect in found if effect is not None]


def by_family(cells: Mapping[Arm, Scores]) -> dict[str, dict[Arm, Scores]]:
    """Return the cells of each family of tasks, and of those without one."""
    names = sorted({family(task, NO_FAMILY) for scores in cells.values() for task in scores})
    return {
        name: {
            arm: {task: tries for task, tries in scores.items() if family(task, NO_FAMILY) == name}
            for arm, scores in cells.items()
        }
        for name in names
    }


def mean(scores: Scores) -> tuple[float, Interval | None] | None:
    """Return the mean partial credit over tasks with its interval, None without any."""
    values = [_partial(tries) for tries in scores.values() if tries]
    return (fmean(values), _interval(values)) if values else None


def _effect(name: str, terms: Sequence[tuple[Arm, int]], cells: Mapping[Arm, Scores]) -> Effect | None:
    common = [task for task in cells[terms[0][0]] if all(cells[arm].get(task) for arm, _ in terms)]
    values = [sum(sign * _partial(cells[arm][task]) for arm, sign in terms) for task in common]
    return Effect(name, fmean(values), _interval(values), len(values)) if values else None


def _interval(values: Sequence[float]) -> Interval | None:
    found = bootstrap([[value] for value in values], [1.0] * len(values))
    return found[0] if found else None


def _partial(tries: Sequence[tuple[float, bool]]) -> float:
    return fmean(partial for partial, _ in tries)
