"""What harness and weights are worth, each alone and together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_bench.trainer.improve.effects import by_family, effects, mean
from mcp_bench.trainer.improve.folder import Arm
from mcp_bench.trainer.improve.gate import Scores

pytestmark = pytest.mark.unit

FOUR = (Arm(), Arm(2, 0), Arm(0, 3), Arm(2, 3))
SHARES = st.lists(st.tuples(*[st.floats(0, 1)] * 4), min_size=2, max_size=6)


def cells(rows: list[tuple[float, ...]], arms: tuple[Arm, ...] = FOUR) -> dict[Arm, Scores]:
    return {
        arm: {f"f{n % 2}.1.test.{n}": [(row[place], row[place] == 1)] for n, row in enumerate(rows)}
        for place, arm in enumerate(arms)
    }


def test_the_interaction_is_what_both_gain_beyond_the_sum() -> None:
    found = {one.name: round(one.value, 6) for one in effects(cells([(0.1, 0.2, 0.3, 0.9)] * 3))}
    assert found == {"harness": 0.1, "weights": 0.2, "both": 0.8, "interaction": 0.5}


@given(SHARES)
def test_effects_add_up(rows: list[tuple[float, ...]]) -> None:
    found = {one.name: one for one in effects(cells(rows))}
    total = found["harness"].value + found["weights"].value + found["interaction"].value
    assert total == pytest.approx(found["both"].value)
    for one in found.values():
        assert one.tasks == len(rows)
        assert one.interval is not None and one.interval[0] - 1e-9 <= one.value <= one.interval[1] + 1e-9


@pytest.mark.parametrize(("last", "name"), [(Arm(2, 0), "harness"), (Arm(0, 1), "weights")])
def test_one_change_has_one_effect(last: Arm, name: str) -> None:
    found = effects(cells([(0.1, 0.4), (0.2, 0.5)], (Arm(), last)))
    assert [(one.name, round(one.value, 6)) for one in found] == [(name, 0.3)]


def test_without_a_change_there_is_no_effect() -> None:
    assert effects(cells([(0.1,)], (Arm(),))) == [] == effects({})


def test_what_was_not_measured_has_no_effect() -> None:
    found = effects(cells([(0.1, 0.2, 0.3)] * 2, FOUR[:3]))
    assert [one.name for one in found] == ["harness", "weights"]


def test_families_are_apart() -> None:
    parts = by_family(cells([(0.0,), (1.0,), (0.5,)], (Arm(),)))
    assert {name: mean(of[Arm()]) for name, of in parts.items()} == {
        "f0": (0.25, (0.0, 0.5)),
        "f1": (1.0, None),
    }
    without = by_family({Arm(): {"a.1": [(1.0, True)], "b": [(0.0, False)]}})
    assert set(without) == {"a", "other tasks"}, "a name of its own, beside the total"
    assert mean({}) is None
