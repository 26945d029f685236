"""Grading: the grade of an attempt, the assertions it consists of, and the formula for partial credit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Self

from pydantic import Field, model_validator

from mcp_bench.servers.base_model import Model

PARTIAL_CEILING = 0.99
"""The highest partial credit of an attempt that the benchmark does not count as a success."""


class AssertionResult(Model):
    """The result of one check on the final state.

    An objective is false at the start and must become true. A guardrail is true at the start and
    must stay true; it enters the denominator of partial credit only when it is broken.
    """

    name: str
    passed: bool
    kind: Literal["objective", "guardrail"] = "objective"
    detail: str = ""


Measure = tuple[str, str, str]
"""What scores must share to be averaged or compared: name, unit, and which is better, `higher` or `lower`."""


class Score(Model):
    """A measured quantity with a unit and a direction, such as 4.5 ms (lower is better)."""

    name: str
    value: float = Field(allow_inf_nan=False)
    better: Literal["higher", "lower"] = "higher"
    unit: str = ""
    baseline: float | None = Field(default=None, allow_inf_nan=False)
    """The value of doing nothing, or of the starting point."""
    par: float | None = Field(default=None, allow_inf_nan=False)
    """The value of a good solution."""

    def words(self) -> str:
        """Return what was measured, such as `latency 4.5 ms`."""
        return measured(self.name, self.value, self.unit)

    @property
    def measure(self) -> Measure:
        return self.name, self.unit, self.better

    @property
    def merit(self) -> float:
        """The value, or its negative where lower is better: the higher, the better."""
        return self.value if self.better == "higher" else -self.value

    @property
    def share_of_par(self) -> float | None:
        """How far the value is from `baseline` to `par`: 1 at par, above 1 beyond it, negative below the
        baseline. None unless both are known and differ."""
        if self.baseline is None or self.par is None or self.baseline == self.par:
            return None
        return (self.value - self.baseline) / (self.par - self.baseline)


class Grade(Model):
    """The verdict on a final state. `partial` is 1 exactly when `strict` is true, else at most 0.99."""

    partial: float = Field(ge=0, le=1)
    strict: bool
    assertions: tuple[AssertionResult, ...] = ()
    metrics: dict[str, float] = Field(default_factory=dict)
    grader_version: str
    score: Score | None = None
    """What was measured. Reports show it, and comparisons and curation can rank by it."""
    submissions: tuple[Score, ...] = ()
    """The scores of all submissions of the attempt; `score` is the best of those that count. A world that
    limits their number refuses further ones itself: `partial` and `strict` depend on it."""
    certain: bool = True
    """False if a model gave the verdict: another judgement of the same state may differ."""

    @model_validator(mode="after")
    def _partial_is_one_exactly_when_strict(self) -> Self:
        if self.strict != (self.partial == 1.0) or (not self.strict and self.partial > PARTIAL_CEILING):
            raise ValueError(f"partial {self.partial} does not go with strict {self.strict}")
        return self


def share_of_par(value: float, *, baseline: float, par: float) -> float:
    """Return how far a value is from `baseline` to `par`, from 0 to 1.

    `par` may be below `baseline`, for times and losses. Below 1, the result is at most `PARTIAL_CEILING`.

    Raises:
        ValueError: `baseline` and `par` are equal.
    """
    if baseline == par:
        raise ValueError(f"baseline and par are both {par}: there is nothing to earn")
    share = (value - baseline) / (par - baseline)
    return 1.0 if share >= 1 else min(max(share, 0.0), PARTIAL_CEILING)


def measured(name: str, value: float, unit: str) -> str:
    """Return name, value and unit, such as `latency 4.5 ms`. A unit that is the name is said once."""
    return f"{name} {value:.4g} {'' if unit == name else unit}".rstrip()


def partial_credit(assertions: Sequence[AssertionResult], *, strict: bool) -> float:
    """Return the share of scored assertions that passed, from 0 to 1.

    All objectives and the broken guardrails are scored. Without objectives (a task that expects no
    change) the result is 1 if `strict`, else 0.

    Args:
        strict: whether the benchmark counts the attempt as a success: then the result is 1.
    """
    if strict:
        return 1.0
    scored = [a for a in assertions if a.kind == "objective" or not a.passed]
    if not any(a.kind == "objective" for a in scored):
        return 0.0
    return min(sum(a.passed for a in scored) / len(scored), PARTIAL_CEILING)
