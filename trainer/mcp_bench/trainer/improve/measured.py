"""What attempts are compared by: a measured score where all have the same one, else partial credit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mcp_bench.servers.grading import Measure, Score
from mcp_bench.trainer.improve.gate import Scores


class Graded(NamedTuple):
    """The grade of an attempt."""

    partial: float
    strict: bool
    score: Score | None


def comparable(sides: Sequence[Mapping[str, Sequence[Graded]]]) -> tuple[list[Scores], Measure | None]:
    """Return the attempts as the gate takes them, by task, and what was measured; None is partial credit.

    A score counts as its merit, so more is better whatever its direction. Partial credit ends at 1, and a
    score goes on beyond the reference.

    Args:
        sides: attempts by task, of each arm.
    """
    attempts = [one for side in sides for tries in side.values() for one in tries]
    measures = {None if one.score is None else one.score.measure for one in attempts}
    measure = next(iter(measures)) if len(measures) == 1 else None

    def value(one: Graded) -> float:
        return one.partial if measure is None or one.score is None else one.score.merit

    return [
        {task: [(value(one), one.strict) for one in tries] for task, tries in side.items()} for side in sides
    ], measure
