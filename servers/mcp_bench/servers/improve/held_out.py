"""The grade of an improvement: what held-out data say about the chosen version."""

from __future__ import annotations

from pydantic import Field, ValidationError

from mcp_bench.servers.base_model import Model
from mcp_bench.servers.contracts import JSON
from mcp_bench.servers.errors import BenchError
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
from mcp_bench.servers.improve.measure import CLOCKED
from mcp_bench.servers.improve.task_file import ImproveTask

VERSION = "2"
REACHED = 0.9
"""Progress that counts as the reference."""
STEPS = (0.25, 0.5, 0.75)
OVERFIT = 3.0
"""Standard errors between search and held-out data that are called overfit."""


class Evidence(Model):
    """All that a grade follows from. The sealed state has it, so that the grade can be made again."""

    chosen: int
    """Number of the graded version; 0 is the baseline, which is not measured again."""
    novelty: float
    runs: int
    crashes: int
    samples: dict[str, list[float]]
    """What was measured on held-out data, by candidate."""
    clock: str = ""
    """What times were read from: `process`, the clock of one process; `processes`, that of all of them by
    perf_event_open(2); `ticks`, /proc in steps of 10 ms; `wall`. Empty: no process was timed."""
    crash: str = ""
    """How the chosen version failed on held-out data."""
    search: dict[str, list[float]] = Field(default_factory=dict)
    """What was measured of the chosen version while searching; empty: it was never run."""
    gains: list[float] = Field(default_factory=list)
    """After each run: the gain over the baseline of the best version so far, as the search measured it."""


def graded_state(task: ImproveTask, state: JSON) -> Grade:
    """Return the grade of a stored final state. Nothing is run or measured.

    Raises:
        BenchError: the state does not have the samples.
    """
    try:
        given = state if isinstance(state, dict) else {}
        known = {name: given[name] for name in Evidence.model_fields if name in given}
        found = Evidence.model_validate(known)
    except ValidationError as error:
        raise BenchError(
            f"its final state does not have what a grade follows from ({error}). It was recorded by an "
            "earlier version"
        ) from error
    return graded(task, found)


def graded(task: ImproveTask, found: Evidence) -> Grade:
    """Return the grade of a version that was measured beside the baseline and the reference.

    Partial credit is the progress from baseline to reference at the worse end of its 95 % interval, and 0
    unless the gain is above the task's least one with the same certainty.
    """
    metrics = {"runs": float(found.runs), "crashes": float(found.crashes)}
    runs = _runs(task, found)
    if found.chosen == 0:
        return _grade(dict.fromkeys(_objectives(), False), 0.0, metrics, runs=runs)
    metrics |= {"novelty": found.novelty}
    if found.crash:
        return _grade(dict.fromkeys(_objectives(), False), 0.0, metrics, crash=found.crash, runs=runs)
    metric, clock = task.definition.metric, task.definition.experiment.kind in CLOCKED
    better = gain(metric, found.samples, CANDIDATE, clock=clock)
    way = progress(metric, found.samples, CANDIDATE, clock=clock)
    held = {name: value(metric, found.samples, name, clock=clock) for name in found.samples}
    improved = better.low > smallest_gain(metric, found.samples, clock=clock)
    holds = dict(
        zip(
            _objectives(),
            [improved, *(improved and way.low >= step for step in STEPS), improved and way.value >= REACHED],
            strict=True,
        )
    )
    metrics |= {"progress": way.value, "held_out": held[CANDIDATE].value}
    if found.search:
        before = gain(metric, found.search, CANDIDATE, clock=clock)
        metrics |= {"search_gain": before.value, "held_out_gain": better.value}
        metrics["gap"] = before.value - better.value
        metrics["overfit"] = float(_overfit(before, better))
    score = Score(
        name=metric.name,
        unit=metric.unit,
        value=held[CANDIDATE].value,
        better="lower" if metric.direction == "minimize" else "higher",
        baseline=held[BASELINE].value,
        par=held[REFERENCE].value,
    )
    return _grade(holds, way.low if improved else 0.0, metrics, score=score, runs=runs)


def _runs(task: ImproveTask, found: Evidence) -> tuple[Score, ...]:
    """Return for each run how far the best version so far was on the way to the reference."""
    if any(found.gains) and REFERENCE not in found.samples:
        return ()
    clock = task.definition.experiment.kind in CLOCKED
    whole = (
        gain(task.definition.metric, found.samples, REFERENCE, clock=clock).value if any(found.gains) else 1
    )
    return tuple(
        Score(name="search", better="higher", value=gained / whole, baseline=0.0, par=1.0)
        for gained in found.gains
        if whole > 0
    )


def _overfit(search: Estimate, held_out: Estimate) -> bool:
    error = (search.half_width**2 + held_out.half_width**2) ** 0.5 / 1.96
    return bool(search.value - held_out.value > OVERFIT * error)


def _objectives() -> list[str]:
    return ["better than the baseline", *(f"{step:.0%} of the way" for step in STEPS), "reference reached"]


def _grade(
    holds: dict[str, bool],
    partial: float,
    metrics: dict[str, float],
    *,
    score: Score | None = None,
    crash: str = "",
    runs: tuple[Score, ...] = (),
) -> Grade:
    strict = all(holds.values())
    checks = [AssertionResult(name=name, passed=passed) for name, passed in holds.items()]
    checks.append(AssertionResult(name="valid", passed=not crash, kind="guardrail", detail=crash[:500]))
    return Grade(
        partial=1.0 if strict else min(max(partial, 0.0), PARTIAL_CEILING),
        strict=strict,
        assertions=tuple(checks),
        metrics=metrics,
        grader_version=VERSION,
        score=score,
        submissions=runs,
    )
