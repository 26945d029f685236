"""Assertions over a final state: matching of values, objectives and guardrails."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_bench.servers.saasworld.authoring.wording import says, spoken
from mcp_bench.servers.saasworld.engine.state import State
from mcp_bench.servers.saasworld.grading.checks import assignable, differing, grade
from mcp_bench.servers.saasworld.grading.matchers import Matcher, holds
from mcp_bench.servers.saasworld.grading.view import View

pytestmark = pytest.mark.unit


def state() -> State:
    tables = {
        "crm.contacts": {"a": {"id": "a", "name": "Ann", "title": "Buyer"}, "b": {"id": "b", "name": "Bo"}}
    }
    return State(tables, now=0, seed=1, settings={})


def matches(matcher: Matcher, value: Any) -> bool:
    return holds(matcher, value, View(state()))


@pytest.mark.parametrize(
    ("text", "mention", "found"),
    [
        ("It is $4,200.00 now", "4200", True),
        ("It is 4200 now", "4200", True),
        ("It is 4,200.50", "4200", False),
        ("It is 14200", "4200", False),
        ("It is 42000", "4200", False),
        ("It is 4200.", "4200", True),
        ("1,234,567 in all", "1234567", True),
        ("We can\N{RIGHT SINGLE QUOTATION MARK}t", "can't", True),
        ("CANNOT\n do", "cannot do", True),
        ("Diana is here", "Ana", False),
        ("Ask Ana.", "Ana", True),
        ("see INV-1042", "INV-1042", True),
        ("see INV-10421", "INV-1042", False),
        ("It is 17,107.20 USD.", "17107.2", True),
        ("It is 17,107.25 USD.", "17107.2", False),
    ],
)
def test_mentions_match_numbers_and_words(text: str, mention: str, found: bool) -> None:
    assert matches({"mentions": [[mention]], "never": []}, text) is found
    assert matches({"mentions": [], "never": [mention]}, text) is not found


@pytest.mark.parametrize("text", ["on 2026-03-04", "March 4", "4th of March", "4 Mar 2026", "03/04/2026"])
def test_a_spoken_date_is_found_in_every_form(text: str) -> None:
    assert matches(says("", spoken("2026-03-04")).matcher, f"We start {text}!")
    assert not matches(says("", spoken("2026-03-04")).matcher, "We start March 14, or 2026-03-05.")


def test_numbers_in_mentions_are_plain() -> None:
    assert says("", 4200.0, 10.5, 7).matcher["mentions"] == [["4200"], ["10.5"], ["7"]]
    assert says("", 1234567.25).matcher["mentions"] == [["1234567.25"]]


@pytest.mark.parametrize(
    ("matcher", "good", "bad"),
    [
        ({"equals": "A  b"}, ["a b", "A B "], ["ab", None, 1]),
        ({"equals": 5}, [5, 5.0, 5.001], [5.01, True, "5", None]),
        ({"equals": True}, [True], [1, None, "true"]),
        ({"equals": ["x", "y"]}, [["Y", "X"]], [["x"], ["x", "x", "y"], "x"]),
        ({"equals": None}, [None, "", []], [0, False, "x"]),
        ({"one_of": ["a", "b"]}, ["A", "b"], ["c", None]),
        ({"within": [2, 4]}, [2, 3.5, 4], [1.9, None, True]),
        ({"within": ["2026-01-01", "2026-01-03"]}, ["2026-01-02"], ["2026-01-04", None]),
        ({"any": True}, [None, 1, "x"], []),
    ],
)
def test_matchers(matcher: Matcher, good: list[Any], bad: list[Any]) -> None:
    assert all(matches(matcher, value) for value in good)
    assert not any(matches(matcher, value) for value in bad)


NAME: dict[str, Any] = {
    "check": "field",
    "name": "n",
    "collection": "crm.contacts",
    "id": "a",
    "field": "name",
}
TITLE = {**NAME, "field": "title"}


def test_an_assertion_true_at_the_start_is_a_guardrail() -> None:
    s = state()
    asked = [{**NAME, "is": {"equals": "Anna"}}, {**TITLE, "is": {"equals": "Buyer"}}]
    assert [a.kind for a in grade(s, asked).assertions] == ["objective", "guardrail"]
    assert grade(s, asked).partial == 0
    s.put("crm.contacts", {"id": "a", "name": "Anna", "title": "Buyer"})
    assert grade(s, asked).partial == 1
    s.put("crm.contacts", {"id": "a", "name": "Anna", "title": "Boss"})
    assert grade(s, asked).partial == 0.5 and not grade(s, asked).strict


def test_scored_and_excluded_decide_what_counts() -> None:
    s = state()
    wish = {**NAME, "is": {"equals": "Anna"}}
    kept = {**TITLE, "is": {"equals": "Buyer"}}
    assert grade(s, [wish, {**wish, "scored": False}, {**wish, "excluded": True}]).partial == 0
    assert len(grade(s, [wish, {**wish, "scored": False}, {**kept, "excluded": True}]).assertions) == 1
    forced = grade(s, [wish, {**kept, "excluded": False}])
    assert [a.kind for a in forced.assertions] == ["objective", "objective"] and forced.partial == 0.5


def test_checks_on_whole_collections() -> None:
    s = state()
    where = {"name": {"equals": "Bo"}}
    cases: list[tuple[dict[str, Any], bool]] = [
        ({"check": "exists", "where": where}, True),
        ({"check": "absent", "where": where}, False),
        ({"check": "absent", "id": "b"}, False),
        ({"check": "count", "where": where, "equals": 1}, True),
        ({"check": "unchanged"}, True),
    ]

    def passed(assertion: dict[str, Any]) -> bool:
        full = {"name": "n", "collection": "crm.contacts", **assertion}
        return grade(s, [full]).assertions[0].passed

    assert all(passed(assertion) is expected for assertion, expected in cases)
    s.remove("crm.contacts", "b")
    assert not any(passed(assertion) is expected for assertion, expected in cases)


@given(
    st.lists(st.dictionaries(st.sampled_from("xyz"), st.sampled_from("pq"), min_size=1), max_size=5),
    st.data(),
)
def test_every_record_is_matched_with_one_entry(wanted: list[dict[str, str]], data: st.DataObject) -> None:
    """Records that were made from the entries, in any order, fit them; one more never does."""
    wheres = [{name: {"equals": value} for name, value in entry.items()} for entry in wanted]
    records = data.draw(st.permutations([{**entry, "id": str(i)} for i, entry in enumerate(wanted)]))
    view = View(state())
    assert assignable(records, wheres, view)
    assert not assignable([*records, {"id": "more", "x": "p", "y": "p", "z": "p"}], wheres, view)


def test_objects_differ_key_by_key() -> None:
    before, after = {"id": "r", "values": {"A": 1, "B": 2}}, {"id": "r", "values": {"A": 1, "B": 3, "C": 4}}
    assert differing(before, after) == {"values.B", "values.C"}


def test_a_failed_transaction_leaves_no_trace() -> None:
    s = state()
    first = s.new_id("con")
    order = list(s.tables["crm.contacts"])
    with pytest.raises(RuntimeError), s.transaction():
        s.remove("crm.contacts", "a")
        s.put("crm.contacts", {"id": s.new_id("con")})
        raise RuntimeError
    assert s.changes() == [] and list(s.tables["crm.contacts"]) == order
    twin = state()
    assert [first, s.new_id("con")] == [twin.new_id("con"), twin.new_id("con")]


@given(st.integers(0, 2**32), st.integers(1, 2000))
def test_ids_never_repeat(seed: int, count: int) -> None:
    s = State({}, now=0, seed=seed, settings={})
    assert len({s.new_id("con") for _ in range(count)}) == count
