"""The grade of an improvement: what held-out data say about the chosen version."""

from __future__ import annotations

from mcp_bench.servers.grading import PARTIAL_CEILING, AssertionResult, Grade, Score
from mcp_bench.servers.improve.estimate import (
    BASELINE,
    CANDIDATE,
    REFERENCE,
    Estimate,
    gain,
    progress,
    smallest_gain,
    value,
)
from mcp_bench.servers.improve.measure import CLOCKED, Measured
from mcp_bench.servers.improve.task_file import ImproveTask
from mcp_bench.servers.improve.versions import Version

VERSION = "1"
REACHED = 0.9
"""Progress that counts as the reference."""
STEPS = (0.25, 0.5, 0.75)
OVERFIT = 3.0
"""Standard errors between search and held-out data that are called overfit."""


def nothing_tried(task: ImproveTask, *, runs: int, crashes: int) -> Grade:
    """Return the grade of the baseline: it needs no measurement."""
    return _grade(
        task, dict.fromkeys(_objectives(), False), 0.0, {"runs": float(runs), "crashes": float(crashes)}
    )


def graded(task: ImproveTask, found: Measured, chosen: Version, *, runs: int, crashes: int) -> Grade:
    """Return the grade of a version that was measured beside the baseline and the reference.

    Partial credit is the progress from baseline to reference at the worse end of its 95 % interval, and 0
    unless the gain is above the task's least one with the same certainty.
    """
    metrics = {"runs": float(runs), "crashes": float(crashes), "novelty": chosen.novelty}
    if CANDIDATE in found.crashes:
        crash = str(found.crashes[CANDIDATE])
        return _grade(task, dict.fromkeys(_objectives(), False), 0.0, metrics, crash=crash)
    metric, clock = task.definition.metric, task.definition.experiment.kind in CLOCKED
    better = gain(metric, found.values, CANDIDATE, clock=clock)
    way = progress(metric, found.values, CANDIDATE, clock=clock)
    held = {name: value(metric, found.values, name, clock=clock) for name in found.values}
    improved = better.low > smallest_gain(metric, found.values, clock=clock)
    holds = dict(
        zip(
            _objectives(),
            [improved, *(improved and way.low >= step for step in STEPS), improved and way.value >= REACHED],
            strict=True,
        )
    )
    metrics |= {"progress": way.value, "held_out": held[CANDIDATE].value}
    if chosen.gain is not None:
        metrics |= {"search_gain": chosen.gain.value, "held_out_gain": better.value}
        metrics["overfit"] = float(_overfit(chosen.gain, better))
    score = Score(
        name=metric.name, unit=metric.unit, value=held[CANDIDATE].value,
        better="lower" if metric.direction == "minimize" else "higher",
        baseline=held[BASELINE].value, par=held[REFERENCE].value,
    )  # fmt: skip
    return _grade(task, holds, way.low if improved else 0.0, metrics, score=score)


def _overfit(search: Estimate, held_out: Estimate) -> bool:
    error = (search.half_width**2 + held_out.half_width**2) ** 0.5 / 1.96
    return bool(search.value - held_out.value > OVERFIT * error)


def _objectives() -> list[str]:
    return ["better than the baseline", *(f"{step:.0%} of the way" for step in STEPS), "reference reached"]


def _grade(
    task: ImproveTask,
    holds: dict[str, bool],
    partial: float,
    metrics: dict[str, float],
    *,
    score: Score | None = None,
    crash: str = "",
) -> Grade:
    strict = all(holds.values())
    checks = [AssertionResult(name=name, passed=passed) for name, passed in holds.items()]
    checks.append(AssertionResult(name="valid", passed=not crash, kind="guardrail", detail=crash[:500]))
    return Grade(
        partial=1.0 if strict else min(max(partial, 0.0), PARTIAL_CEILING), strict=strict,
        assertions=tuple(checks), metrics=metrics, grader_version=VERSION, score=score,
    )  # fmt: skip
