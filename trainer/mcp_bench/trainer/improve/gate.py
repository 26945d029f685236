"""The gate: whether a change made an agent better, from repeated attempts at the same tasks.

An agent's score on a few dozen tasks varies by several points from one run to the next. A gate that takes the
higher of two means promotes every second change that does nothing. So both sides attempt the same tasks
several times, and the difference counts only if its interval is above 0. What passes is measured once more,
on tasks that no change was chosen on (`halves`).

All functions are pure: scores in, verdict out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from math import sqrt
from statistics import fmean, stdev
from typing import Literal

from mcp_bench.recorder.scores.statistics import Interval, bootstrap
from mcp_bench.servers.grading import Measure

Attempt = tuple[float, bool]
"""The grade of an attempt: partial credit, or the merit of what was measured; and strict."""
Scores = Mapping[str, Sequence[Attempt]]
"""Graded attempts by task."""

FEWEST_TASKS = 10
"""With five, a change that does nothing passes `judge` in 7 % of simulations: intervals are too narrow."""
MOST_INVALID = 0.1
"""Above this share of invalid episodes, scores are not compared."""
BROKEN_SHARE = 0.03
"""Of the tasks that a change may break."""


@dataclass(frozen=True)
class Verdict:
    """What a comparison says. The difference is of mean partial credit or merit, paired by task."""

    outcome: Literal["better", "unclear", "not better"]
    why: str
    tasks: int = 0
    """That were compared; 0 where there are too few."""
    difference: float = 0.0
    interval: Interval | None = None
    error: float = 0.0
    """The standard error of the difference."""
    fixed: tuple[str, ...] = ()
    """Tasks that most attempts failed before and most solve now."""
    broken: tuple[str, ...] = ()
    """Tasks that most attempts solved before, and most fail now; or no valid attempt is left."""
    measure: Measure | None = None
    """What was measured; None is partial credit."""

    @property
    def better(self) -> bool:
        return self.outcome == "better"

    @property
    def breaks_too_many(self) -> bool:
        return len(self.broken) > most_broken(self.tasks, len(self.fixed))


def judge(before: Scores, after: Scores, measure: Measure | None = None) -> Verdict:
    """Return whether `after` is better: the lower end of the paired 95 % interval is above 0.

    `unclear` is a gain whose interval has 0 in it: more attempts can decide.

    Args:
        before: the best arm so far.
        after: the arm with the change.
        measure: what was measured; None is partial credit.
    """
    found = _compared(before, after, measure)
    if found.outcome == "not better":
        return found
    assert found.interval is not None  # noqa: S101 - there are several tasks
    if found.interval[0] > 0:
        return found
    return replace(found, outcome="unclear", why=f"{found.why}: the interval has 0 in it")


def confirm(before: Scores, after: Scores, measure: Measure | None = None) -> Verdict:
    """Return whether `after` holds on the tasks of `confirm`: it gains there, too, and breaks few tasks.

    No interval is asked for: `judge` did, and this half is here to find gains that were chosen by chance.
    """
    return _compared(before, after, measure)


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


def gain(value: float, interval: Interval | None, measure: Measure | None) -> str:
    """Return a gain with its interval and unit. Above 0 is better, whatever the direction of the measure."""
    form = "+.3f" if measure is None else "+.4g"
    span = "" if interval is None else f" [{interval[0]:{form}}, {interval[1]:{form}}]"
    return f"{value:{form}}{span} {'' if measure is None else measure[1]}".rstrip()


def _compared(before: Scores, after: Scores, measure: Measure | None) -> Verdict:
    common = [task for task in before if before[task] and after.get(task)]
    if len(common) < FEWEST_TASKS:
        return Verdict("not better", f"only {len(common)} tasks were graded on both sides")
    gains = [_partial(after[task]) - _partial(before[task]) for task in common]
    fixed = tuple(task for task in common if _share(before[task]) < 0.5 < _share(after[task]))
    broken = tuple(
        task for task, tries in before.items() if tries and _share(after.get(task, ())) < 0.5 < _share(tries)
    )
    found = bootstrap([[one] for one in gains], [1.0] * len(gains))
    assert found is not None  # noqa: S101 - there are several tasks
    difference, error = fmean(gains), stdev(gains) / sqrt(len(gains))
    of = "partial" if measure is None else f"{measure[0]} ({measure[2]} is better)"
    words = f"{of} {gain(difference, found[0], measure)}, {len(fixed)} tasks fixed, {len(broken)} broken"
    verdict = Verdict("better", words, len(common), difference, found[0], error, fixed, broken, measure)
    if verdict.breaks_too_many:
        return replace(verdict, outcome="not better", why=f"{words}: it breaks too many")
    if round(difference, 12) <= 0:  # as the interval is rounded: gains that cancel out leave 1e-17
        return replace(verdict, outcome="not better", why=f"{words}: no gain")
    return verdict


def _partial(attempts: Sequence[Attempt]) -> float:
    return fmean(partial for partial, _ in attempts)


def _share(attempts: Sequence[Attempt]) -> float:
    return fmean(strict for _, strict in attempts) if attempts else 0.0
