"""Assertions over a final state: matching of values, objectives and guardrails."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_bench.servers.saasworld.authoring.wording import says, spoken
from mcp_bench.servers.saasworld.engine.state import State
from mcp_bench.servers.saasworld.grading.checks import assignable, grade
from mcp_bench.servers.saasworld.grading.matchers import Matcher, holds
from mcp_bench.servers.saasworld.grading.view import View, differing

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
        ("It is Ana's turn.", "Ana", True),
        ("Ask Anatoly.", "Ana", False),
        ("Her salary is higher.", "Sala", False),
        ("It is approved", "approv*", True),
        ("It is disapproved", "approv*", False),
        ("It is approved", "approv", False),
        ("It isn't approved", "not approved", True),
        ("We cannot", "can't", True),
        ("see INV-1042b", "INV-1042", False),
        ("on 2026\N{NON-BREAKING HYPHEN}03\N{NON-BREAKING HYPHEN}04", "2026-03-04", True),
        ("It is 4200USD", "4200", True),
        ("see INV-1042", "INV-1042", True),
        ("see INV-10421", "INV-1042", False),
        ("It is 17,107.20 USD.", "17107.2", True),
        ("It is 17,107.25 USD.", "17107.2", False),
    ],
)
def test_mentions_match_numbers_and_words(text: str, mention: str, found: bool) -> None:
    assert matches({"mentions": [[mention]], "never": []}, text) is found
    assert matches({"mentions": [], "never": [mention]}, text) is not found


SPELLINGS = {
    "2026-03-04": (
        *("on 2026-03-04", "March 4", "4th of March", "4 Mar 2026", "03/04/2026", "04/03/2026", "04.03.2026"),
        *("Mar. 4", "Mar. 4th", "4-Mar-2026", "3/4/2026", "4/3/2026", "2026/03/04", "4.3.2026", "4. March"),
        *("March the 4th", "04-03-2026"),
    ),
    "2026-09-12": ("Sept 12", "Sept. 12, 2026", "Sep. 12", "12 Sept.", "12-Sept-2026", "9/12/2026"),
}


@pytest.mark.parametrize(("day", "text"), [(day, text) for day, texts in SPELLINGS.items() for text in texts])
def test_a_spoken_date_is_found_in_every_form(day: str, text: str) -> None:
    assert matches(says("", spoken(day)).matcher, f"We start {text}!")


@pytest.mark.parametrize(
    "text", ["March 14", "2026-03-05", "Mar. 41", "14-Mar-2026", "13/4/2026", "3/4/20261"]
)
def test_another_date_is_not_the_spoken_one(text: str) -> None:
    assert not matches(says("", spoken("2026-03-04")).matcher, f"We start {text}.")


def test_numbers_in_mentions_are_plain() -> None:
    assert says("", 4200.0, 10.5, 7).matcher["mentions"] == [["4200"], ["10.5"], ["7"]]
    assert says("", 1234567.25).matcher["mentions"] == [["1234567.25"]]


@pytest.mark.parametrize(
    ("matcher", "good", "bad"),
    [
        ({"equals": "A  b"}, ["a b", "A B "], ["ab", None, 1]),
        ({"equals": 5}, [5, 5.0, 5.001], [5.01, True, "5", None]),
        ({"equals": 5.5}, [5.5], [10**400, -(10**400)]),
        ({"one_of": [10**400, 2.5]}, [10**400, 2.5], [3.5]),
        (
            {"keys": ["A", "B"]},
            [{"A": 1, "B": 2}, {"A": 1}, {"A": 1, "C": ""}, {"C": None}],
            [{"A": 1, "C": 0}, None],
        ),
        ({"equals": True}, [True], [1, None, "true"]),
        ({"equals": ["x", "y"]}, [["Y", "X"]], [["x"], ["x", "x", "y"], "x"]),
        ({"equals": None}, [None, "", []], [0, False, "x"]),
        ({"one_of": ["a", "b"]}, ["A", "b"], ["c", None]),
        ({"within": [2, 4]}, [2, 3.5, 4], [1.9, None, True, "3", [3]]),
        ({"within": ["2026-01-01", "2026-01-03"]}, ["2026-01-02"], ["2026-01-04", None, 3]),
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


@pytest.mark.parametrize("nothing", [None, "", [], {}, {"A": ""}])
def test_a_field_that_is_empty_again_does_not_differ(nothing: Any) -> None:
    with_it, without = {"id": "a", "labels": nothing}, {"id": "a"}
    assert differing(with_it, without) == differing(without, with_it) == set()
    s = state()
    s.put("crm.contacts", {"id": "b", "name": "Bo", "labels": nothing})
    kept = [
        {
            "check": check,
            "name": check,
            "collection": "crm.contacts",
            "updated": {},
            "deleted": [],
            "created": [],
        }
        for check in ("only", "unchanged")
    ]
    assert [a.passed for a in grade(s, kept).assertions] == [True, True]
    s.put("crm.contacts", {"id": "b", "name": "Bo", "labels": ["x"]})
    assert [a.passed for a in grade(s, kept).assertions] == [False, False]


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
