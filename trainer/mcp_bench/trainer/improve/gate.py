"""The gate: whether a change made an agent better, from repeated attempts at the same tasks.

An agent's score on a few dozen tasks varies by several points from one run to the next. A gate that takes the
higher of two means promotes every second change that does nothing. So both sides attempt the same tasks
several times, and the difference counts only if its interval is above 0. What passes is measured once more,
on tasks that no change was chosen on (`halves`).

All functions are pure: scores in, verdict out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from math import sqrt
from statistics import fmean, stdev
from typing import Literal

from mcp_bench.recorder.scores.statistics import Interval, bootstrap

Attempt = tuple[float, bool]
"""The grade of an attempt: partial and strict."""
Scores = Mapping[str, Sequence[Attempt]]
"""Graded attempts by task."""

FEWEST_TASKS = 5
"""With four tasks, a change that does nothing is better on all of them in one case of 16."""
MOST_INVALID = 0.1
"""Above this share of invalid episodes, scores are not compared."""
BROKEN_SHARE = 0.03
"""Of the tasks that a change may break."""


@dataclass(frozen=True)
class Verdict:
    """What a comparison says. The difference is of mean partial credit, paired by task."""

    outcome: Literal["better", "unclear", "not better"]
    why: str
    tasks: int = 0
    difference: float = 0.0
    interval: Interval | None = None
    error: float = 0.0
    """The standard error of the difference."""
    fixed: tuple[str, ...] = ()
    """Tasks that most attempts failed before and most solve now."""
    broken: tuple[str, ...] = ()

    @property
    def better(self) -> bool:
        return self.outcome == "better"


def judge(before: Scores, after: Scores) -> Verdict:
    """Return whether `after` is better: the lower end of the paired 95 % interval is above 0.

    `unclear` is a gain whose interval has 0 in it: more attempts can decide.
    """
    found = _compared(before, after)
    if found.outcome == "not better":
        return found
    assert found.interval is not None  # noqa: S101 - there are several tasks
    if found.interval[0] > 0:
        return found
    return _with(found, "unclear", f"{found.why}: the interval has 0 in it")


def confirm(before: Scores, after: Scores) -> Verdict:
    """Return whether `after` holds on the tasks of `confirm`: it gains there, too, and breaks few tasks.

    No interval is asked for: `judge` did, and this half is here to find gains that were chosen by chance.
    """
    return _compared(before, after)


def most_broken(tasks: int, fixed: int) -> int:
    """Return how many tasks a change may break: one, 3 % of them, or a third of those that it fixes."""
    return max(1, int(BROKEN_SHARE * tasks), fixed // 3)


def halves(ids: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the tasks that the gate uses, and those of `confirm`: half of them, by a hash of the id.

    A task is in the same half whatever other tasks there are.
    """
    sides: tuple[list[str], list[str]] = ([], [])
    for one in ids:
        sides[sha256(f"confirm {one}".encode()).digest()[0] & 1].append(one)
    return sides


def too_many_invalid(invalid: int, episodes: int) -> bool:
    """Return whether a recording cannot be compared."""
    return episodes == 0 or invalid / episodes > MOST_INVALID


def _compared(before: Scores, after: Scores) -> Verdict:
    common = [task for task in before if before[task] and after.get(task)]
    if len(common) < FEWEST_TASKS:
        return Verdict("not better", f"only {len(common)} tasks were graded on both sides", len(common))
    gains = [_partial(after[task]) - _partial(before[task]) for task in common]
    fixed = tuple(task for task in common if _share(before[task]) < 0.5 < _share(after[task]))
    broken = tuple(task for task in common if _share(after[task]) < 0.5 < _share(before[task]))
    found = bootstrap([[gain] for gain in gains], [1.0] * len(gains))
    assert found is not None  # noqa: S101 - there are several tasks
    difference, error = fmean(gains), stdev(gains) / sqrt(len(gains))
    low, high = found[0]
    words = (
        f"partial {difference:+.3f} [{low:+.3f}, {high:+.3f}], {len(fixed)} tasks fixed, {len(broken)} broken"
    )
    verdict = Verdict("better", words, len(common), difference, found[0], error, fixed, broken)
    if len(broken) > most_broken(len(common), len(fixed)):
        return _with(verdict, "not better", f"{words}: it breaks too many")
    if difference <= 0:
        return _with(verdict, "not better", f"{words}: no gain")
    return verdict


def _with(found: Verdict, outcome: Literal["unclear", "not better"], why: str) -> Verdict:
    return Verdict(
        outcome, why, found.tasks, found.difference, found.interval, found.error, found.fixed, found.broken
    )


def _partial(attempts: Sequence[Attempt]) -> float:
    return fmean(partial for partial, _ in attempts)


def _share(attempts: Sequence[Attempt]) -> float:
    return fmean(strict for _, strict in attempts)
