"""Properties of imperfect attempts, for any calls."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from mcp_bench.clients.imperfect import Call, changed_value, with_slips, worsen

pytestmark = pytest.mark.unit

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
calls = st.lists(
    st.builds(Call, st.sampled_from("abc"), st.dictionaries(st.text(), values, max_size=3)), max_size=8
)
shares = st.floats(0, 1)
spoilable = st.builds(Call, st.just("a"), st.fixed_dictionaries({"x": st.integers()}))


@given(values, st.randoms(use_true_random=False))
def test_changed_value_has_the_same_type_and_other_content(value: object, chance: object) -> None:
    before = copy.deepcopy(value)
    changed = changed_value(value, chance)
    assert value == before, "the original stays as it was"
    if changed is not None:
        assert type(changed) is type(value)
        assert changed != value


@given(calls, shares, shares, st.integers())
def test_the_same_seed_makes_the_same_attempt(
    given: list[Call], drop: float, spoil: float, seed: int
) -> None:
    once = worsen(given, drop=drop, spoil=spoil, seed=seed)
    assert once == worsen(given, drop=drop, spoil=spoil, seed=seed)
    assert abs(len(once) - len(given) * (1 - drop)) < 1 + 1e-6


@given(calls)
def test_shares_of_0_change_nothing_and_of_1_leave_nothing(given: list[Call]) -> None:
    assert worsen(given) == given
    assert worsen(given, drop=1.0) == []


@given(st.lists(spoilable, max_size=8), st.integers())
def test_a_share_of_one_spoils_every_call(given: list[Call], seed: int) -> None:
    spoiled = worsen(given, spoil=1.0, seed=seed)
    assert [call.name for call in spoiled] == [call.name for call in given]
    assert all(after.arguments != before.arguments for before, after in zip(given, spoiled, strict=True))


@given(st.integers())
def test_a_spoiled_choice_stays_a_choice(seed: int) -> None:
    schemas = {"paint": {"type": "object", "properties": {"colour": {"enum": ["red", "blue", "green"]}}}}
    (call,) = worsen([Call("paint", {"colour": "red"})], spoil=1.0, seed=seed, schemas=schemas)
    assert call.arguments["colour"] in ("blue", "green")


@given(st.integers(), st.integers())
def test_shares_hold_on_average_over_short_attempts(seed: int, salt: int) -> None:
    attempts = [[Call("a", {"x": salt + number})] for number in range(400)]
    kept = sum(len(worsen(attempt, drop=0.3, seed=seed)) for attempt in attempts)
    assert 0.5 < kept / 400 < 0.9


SLIPPING: dict[str, dict[str, Any]] = {
    name: {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    for name, properties, required in (
        ("find", {"query": {"type": "string"}, "limit": {"type": "integer"}}, ["query"]),
        ("paint", {"colour": {"enum": ["red", "blue"]}, "tags": {"type": "array"}}, []),
    )
}
slipping = st.lists(
    st.builds(Call, st.just("find"), st.fixed_dictionaries({"query": st.text()}))
    | st.builds(Call, st.just("paint"), st.just({"colour": "red"})),
    max_size=8,
)


@given(slipping, shares, st.integers())
def test_a_slip_is_refused_and_then_repaired(given: list[Call], share: float, seed: int) -> None:
    made = with_slips(given, slips=share, seed=seed, schemas=SLIPPING)
    assert made == with_slips(given, slips=share, seed=seed, schemas=SLIPPING)
    wrong = [at for at, call in enumerate(made) if not valid(call)]
    assert [call for at, call in enumerate(made) if at not in wrong] == given
    assert all(made[at].name == made[at + 1].name for at in wrong)
    assert abs(len(wrong) - share * len(given)) < 1 + 1e-6


def valid(call: Call) -> bool:
    return not list(Draft202012Validator(SLIPPING[call.name]).iter_errors(call.arguments))


@given(calls, shares)
def test_what_no_schema_refuses_is_never_a_slip(given: list[Call], share: float) -> None:
    known = {"a": {"type": "object"}, "b": {"type": "object", "properties": {"x": {}}}}
    assert with_slips(given, slips=share, schemas=known) == given
