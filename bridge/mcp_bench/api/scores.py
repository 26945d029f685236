"""What `mcp-bench report` prints, typed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

Interval = tuple[float, float]
"""A 95 % confidence interval: a bootstrap over tasks."""


@dataclass(frozen=True)
class PassK:
    """Chance of a task being solved in at least one of `k` attempts (pass@k), and in all of them (pass^k)."""

    k: int
    tasks: int
    """Tasks with at least `k` attempts, over which the means are."""
    pass_at_k: float
    pass_at_k_ci: Interval | None
    pass_hat_k: float
    pass_hat_k_ci: Interval | None


@dataclass(frozen=True)
class Measured:
    """The mean of what the benchmark measured, such as a latency, over valid graded episodes."""

    name: str
    unit: str
    better: str
    """`higher` or `lower`."""
    mean: float
    ci: Interval | None


@dataclass(frozen=True)
class Score:
    """Scores of a group of episodes under the same conditions.

    A field that differs within the group and that it was not grouped by is `*`. Means are over valid graded
    episodes; None without any.
    """

    agent: str
    model: str | None
    benchmark: str
    split: str
    domain: str
    benchmark_version: str
    agent_version: str
    tools_mode: str
    home: str
    isolation: str
    harness: str
    """The settings that scores depend on, such as `timeout 900, retries 2`."""
    episodes: int
    invalid: int
    tasks: int
    """Tasks with a valid graded episode."""
    partial: float | None
    partial_ci: Interval | None
    strict: float | None
    strict_ci: Interval | None
    score: Measured | None
    """None unless all valid graded episodes measured the same in the same unit."""
    partial_invalid_as_0: float | None
    strict_invalid_as_0: float | None
    verified: int
    """Valid episodes whose grade was out of the agent's reach."""
    tainted: int
    tool_calls: int
    failed_calls: int
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    pass_k: tuple[PassK, ...]
    """Empty if no task was tried twice."""
    details: Mapping[str, Any]
    """The whole row, as in `mcp-bench report --json`."""


@dataclass(frozen=True)
class Difference:
    """Means of both sides on their common tasks, and B minus A."""

    a: float | None
    b: float | None
    difference: float | None
    difference_ci: Interval | None


@dataclass(frozen=True)
class ScoreDifference:
    """What both sides measured, on the common tasks whose attempts all measured it."""

    name: str
    unit: str
    better: str
    """`higher` or `lower`."""
    common_tasks: int
    means: Difference
    b_better: tuple[str, ...]
    """Tasks on which B measured better, in the direction of `better`; the largest difference first."""
    b_worse: tuple[str, ...]


@dataclass(frozen=True)
class Flip:
    """A task that one side solved in more than half of its attempts, and the other did not."""

    task: str
    solved_a: int
    episodes_a: int
    solved_b: int
    episodes_b: int
    episodes: tuple[str, ...]
    """Ids of the episodes of both sides."""


@dataclass(frozen=True)
class Compared:
    """Both sides in one group of episodes."""

    group: Mapping[str, str]
    """The fields that it was grouped by, with their values."""
    common_tasks: int
    partial: Difference
    strict: Difference
    fail_to_pass: tuple[Flip, ...]
    pass_to_fail: tuple[Flip, ...]
    scores: tuple[ScoreDifference, ...]
    """For each thing that both sides measured."""
    details: Mapping[str, Any]
    """The whole row, as in `mcp-bench report --compare A B --json`."""


@dataclass(frozen=True)
class Comparison:
    """Two agents, models or runs on the tasks that both tried."""

    a: str
    b: str
    rows: tuple[Compared, ...]


def score(row: Mapping[str, Any]) -> Score:
    """Return a row of `summarise`."""
    own = {one.name: row[one.name] for one in fields(Score) if one.name not in ("pass_k", "score", "details")}
    own |= {name: _interval(own[name]) for name in ("partial_ci", "strict_ci")}
    measured = row["score"] and Measured(**{**row["score"], "ci": _interval(row["score"]["ci"])})
    pass_k = tuple(PassK(**found) for found in row["pass_k"])
    return Score(**own, score=measured, pass_k=pass_k, details=row)


def comparison(found: Mapping[str, Any], by: Sequence[str]) -> Comparison:
    """Return the result of `compare`."""
    return Comparison(found["a"], found["b"], tuple(_compared(row, by) for row in found["rows"]))


def _compared(row: Mapping[str, Any], by: Sequence[str]) -> Compared:
    return Compared(
        group={name: row[name] for name in by},
        common_tasks=row["common_tasks"],
        partial=_difference(row["partial"]),
        strict=_difference(row["strict"]),
        fail_to_pass=tuple(map(_flip, row["flips"]["fail_to_pass"])),
        pass_to_fail=tuple(map(_flip, row["flips"]["pass_to_fail"])),
        scores=tuple(map(_score_difference, row["scores"])),
        details=row,
    )


def _difference(found: Mapping[str, Any]) -> Difference:
    return Difference(found["a"], found["b"], found["difference"], _interval(found["difference_ci"]))


def _score_difference(found: Mapping[str, Any]) -> ScoreDifference:
    better, worse = (tuple(flip["task"] for flip in found["flips"][way]) for way in ("better", "worse"))
    return ScoreDifference(
        name=found["name"],
        unit=found["unit"],
        better=found["better"],
        common_tasks=found["common_tasks"],
        means=_difference(found),
        b_better=better,
        b_worse=worse,
    )


def _flip(found: Mapping[str, Any]) -> Flip:
    a, b = found["a"], found["b"]
    return Flip(
        found["task"], a["solved"], a["episodes"], b["solved"], b["episodes"], tuple(found["episodes"])
    )


def _interval(found: Sequence[float] | None) -> Interval | None:
    return None if found is None else (found[0], found[1])
