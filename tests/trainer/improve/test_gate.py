"""The gate promotes what is better, and not what is lucky."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_bench.servers.grading import Score
from mcp_bench.trainer.improve.gate import (
    FEWEST_TASKS,
    Attempt,
    Scores,
    confirm,
    halves,
    judge,
    most_broken,
    too_many_invalid,
)
from mcp_bench.trainer.improve.measured import Graded, comparable

pytestmark = pytest.mark.unit

ATTEMPTS = st.lists(
    st.tuples(st.sampled_from([0.0, 0.25, 0.5, 0.99]), st.booleans()).map(
        lambda pair: (1.0, True) if pair[1] else pair
    ),
    min_size=1,
    max_size=4,
)
TASKS = st.dictionaries(st.sampled_from([f"t{n}" for n in range(16)]), ATTEMPTS, max_size=16)


def alike(tasks: int, partial: float, strict: bool = False) -> dict[str, list[Attempt]]:
    return {f"t{n}": [(partial, strict)] for n in range(tasks)}


@given(before=TASKS, after=TASKS)
def test_a_verdict_follows_from_its_figures(before: Scores, after: Scores) -> None:
    found = judge(before, after)
    common = len(before.keys() & after.keys())
    assert FEWEST_TASKS == 10
    assert found.tasks == (common if common >= FEWEST_TASKS else 0)
    if found.better:
        assert found.tasks >= FEWEST_TASKS
        assert found.interval is not None and 0 < found.interval[0] <= found.difference
        assert len(found.broken) <= most_broken(found.tasks, len(found.fixed))
    if found.outcome == "unclear":
        assert found.interval is not None and found.interval[0] <= 0 < found.difference
    assert not found.better or confirm(before, after).better
    assert not set(found.fixed) & set(found.broken)


@given(before=TASKS, after=TASKS)
def test_only_one_of_two_directions_is_better(before: Scores, after: Scores) -> None:
    assert not (judge(before, after).better and judge(after, before).better)
    assert not judge(before, before).better


@given(before=TASKS, after=TASKS, seed=st.integers(0, 99))
def test_the_order_of_attempts_does_not_matter(before: Scores, after: Scores, seed: int) -> None:
    turned = {task: list(reversed(tries)) for task, tries in after.items()}
    assert judge(before, turned) == judge(before, after)


def test_a_clear_gain_is_better() -> None:
    found = judge(alike(10, 0.4), alike(10, 1.0, strict=True))
    assert (found.outcome, len(found.fixed), found.broken) == ("better", 10, ())
    assert found.why == "partial +0.600 [+0.600, +0.600], 10 tasks fixed, 0 broken"


def test_few_tasks_say_nothing() -> None:
    found = judge(alike(9, 0.0), alike(9, 1.0, strict=True))
    assert (found.outcome, found.why) == ("not better", "only 9 tasks were graded on both sides")
    assert found.tasks == 0, "a report shows no gain of 0"


def test_a_gain_on_one_task_is_unclear() -> None:
    after = alike(12, 0.5)
    after["t0"] = [(0.9, False)]
    assert judge(alike(12, 0.5), after).outcome == "unclear"
    assert confirm(alike(12, 0.5), after).better


def test_gains_that_cancel_out_are_none() -> None:
    """Their sum in floats is 8e-18."""
    before = {**alike(10, 0.5), "a": [(0.7, False)], "b": [(0.3, False)]}
    after = {**alike(10, 0.5), "a": [(0.9, False)], "b": [(0.1, False)]}
    assert not confirm(before, after).better and not confirm(after, before).better


def test_broken_tasks_prevent_a_promotion() -> None:
    before = {**alike(20, 0.1), "a": [(1.0, True)], "b": [(1.0, True)]}
    after = {**alike(20, 0.9), "a": [(0.0, False)], "b": [(0.0, False)]}
    found = judge(before, after)
    assert found.outcome == "not better" and found.why.endswith("it breaks too many")
    assert judge({**before, "b": [(0.1, False)]}, {**after, "b": [(0.9, False)]}).better


def test_a_task_without_a_valid_attempt_is_broken() -> None:
    """An invalid episode is not compared, and a change that causes some must not hide behind that."""
    before = {**alike(20, 0.1), "a": [(1.0, True)], "b": [(1.0, True)], "c": [(0.1, False)]}
    after = alike(20, 0.9)
    found = judge(before, after)
    assert (found.outcome, found.broken) == ("not better", ("a", "b"))
    assert judge(before, {**after, "a": [(1.0, True)]}).better


SIZE = Score(name="size", value=2.0, better="lower", unit="bits/byte")


def sizes(*values: float) -> dict[str, list[Graded]]:
    """Return attempts whose partial credit is 0, since none is at the reference."""
    return {
        f"t{n}": [Graded(0.0, False, SIZE.model_copy(update={"value": value}))]
        for n, value in enumerate(values)
    }


def test_what_is_measured_is_compared_in_its_direction_and_unit() -> None:
    (before, after), measure = comparable([sizes(*[2.0] * 10), sizes(*[1.5, 1.7] * 5)])
    found = judge(before, after, measure)
    assert (found.outcome, found.measure) == ("better", ("size", "bits/byte", "lower"))
    assert found.why.startswith("size (lower is better) +0.4 [+0.34, +0.46] bits/byte, 0 tasks fixed")
    assert judge(after, before, measure).outcome == "not better"


def test_partial_credit_decides_where_scores_differ_or_are_missing() -> None:
    other = {"t0": [Graded(0.5, False, SIZE.model_copy(update={"unit": "bytes"}))]}
    missing = {"t0": [Graded(0.5, False, None)]}
    for side in (other, missing):
        (before, after), measure = comparable([sizes(2.0), side])
        assert (before, after, measure) == ({"t0": [(0.0, False)]}, {"t0": [(0.5, False)]}, None)
    assert comparable([{}, {}]) == ([{}, {}], None)


def test_an_attempt_that_measured_nothing_counts_as_the_baseline() -> None:
    known = SIZE.model_copy(update={"baseline": 3.0})
    (before, after), measure = comparable(
        [{"t0": [Graded(0.0, False, None)]}, {"t0": [Graded(0.9, False, known)]}]
    )
    assert (before, after) == ({"t0": [(-3.0, False)]}, {"t0": [(-2.0, False)]})
    assert measure == SIZE.measure


@given(st.sets(st.text(max_size=8), max_size=40), st.text(max_size=8))
def test_halves_are_disjoint_and_stable(ids: set[str], more: str) -> None:
    gate, held = halves(sorted(ids))
    assert sorted([*gate, *held]) == sorted(ids)
    again = halves(sorted(ids | {more}))
    assert set(gate) <= set(again[0]) and set(held) <= set(again[1])


def test_halves_are_about_equal() -> None:
    gate, held = halves(f"simple-mail-filing.{level}.dev.{n}" for level in (1, 2, 3) for n in range(100))
    assert 120 < len(gate) < 180 and len(gate) + len(held) == 300


def test_many_invalid_episodes_are_not_compared() -> None:
    assert too_many_invalid(0, 0) and too_many_invalid(2, 10)
    assert not too_many_invalid(1, 10)


def attempts(chance: np.random.Generator, odds: np.ndarray, repeats: int) -> dict[str, list[Attempt]]:
    """Return attempts of an agent that solves task i with the probability `odds[i]`."""
    solved = chance.random((len(odds), repeats)) < odds[:, None]
    return {f"t{n}": [(float(one), bool(one)) for one in row] for n, row in enumerate(solved)}


def promoted(seed: int, gain: float, tasks: int = 30) -> tuple[bool, bool]:
    """Return whether a gate without repeats promotes a change, and whether ours does.

    The simulated agent solves tasks by chance; `gain` is what the change adds to each task's probability.
    """
    chance = np.random.default_rng(seed)
    odds = chance.beta(1, 1, tasks)
    held = chance.beta(1, 1, tasks)
    better, held_better = (np.clip(one + gain, 0, 1) for one in (odds, held))
    once = [attempts(chance, one, 1) for one in (odds, better)]
    naive = sum(one[0][0] for one in once[1].values()) > sum(one[0][0] for one in once[0].values())
    sides = [attempts(chance, one, 4) for one in (odds, better)]
    first = [{task: tries[:2] for task, tries in side.items()} for side in sides]
    found = judge(*first)
    if found.outcome == "unclear":
        found = judge(*sides)
    held_sides = [attempts(chance, one, 2) for one in (held, held_better)]
    return naive, found.better and confirm(*held_sides).better


def test_without_repeats_noise_is_promoted() -> None:
    """A simulation with fixed seeds: of changes that do nothing, and of a change that helps."""
    nothing = [promoted(seed, 0.0) for seed in range(200)]
    helps = [promoted(seed, 0.3) for seed in range(200, 240)]
    assert sum(naive for naive, _ in nothing) >= 70  # about as good as tossing a coin
    assert sum(ours for _, ours in nothing) <= 6
    assert sum(ours for _, ours in helps) >= 32
