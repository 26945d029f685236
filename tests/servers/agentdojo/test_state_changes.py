"""The comparison of changes for partial credit on AgentDojo."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_bench.servers.agentdojo.changes import Comparison, changes, compare
from mcp_bench.servers.contracts import JSON

pytestmark = pytest.mark.unit

emails = st.fixed_dictionaries(
    {"subject": st.sampled_from("ab"), "recipients": st.lists(st.sampled_from("xyz"), max_size=3)}
)
states = st.fixed_dictionaries(
    {
        "emails": st.lists(emails, max_size=4).map(
            lambda found: {str(n): {"id_": str(n), **email} for n, email in enumerate(found)}
        ),
        "messages": st.lists(st.fixed_dictionaries({"body": st.sampled_from("pq")}), max_size=3),
        "users": st.lists(st.sampled_from(["Ann", "Bob"]), max_size=3),
        "city": st.sampled_from(["Rome", "Bern"]),
    }
)


def compared(before: JSON, reference: JSON, attempt: JSON) -> Comparison:
    return compare(changes(before, reference), changes(before, attempt))


@given(states)
def test_an_unchanged_state_has_no_changes(state: Any) -> None:
    assert list(changes(state, copy.deepcopy(state))) == []


@given(states, states)
def test_same_changes_score_all_and_no_changes_score_none(before: Any, after: Any) -> None:
    same = compared(before, after, copy.deepcopy(after))
    assert all(passed for _, passed in same.expected) and not same.unexpected
    nothing = compared(before, after, before)
    assert not any(passed for _, passed in nothing.expected) and not nothing.unexpected
    assert len(nothing.expected) == len(same.expected)


@given(states, states)
def test_changes_without_a_reference_are_unexpected(before: Any, after: Any) -> None:
    found = compared(before, before, after)
    assert not found.expected
    assert bool(found.unexpected) == bool(list(changes(before, after)))


BEFORE: dict[str, JSON] = {
    "emails": {"1": {"id_": "1", "subject": "old", "read": False, "timestamp": "t0"}},
    "log": [{"body": "first"}],
    "users": ["Ann"],
    "web_requests": [],
    "initial_emails": [],
}


def email(number: int, to: str, time: str = "now") -> dict[str, JSON]:
    return {str(number): {"id_": str(number), "subject": "hi", "recipients": [to], "timestamp": time}}


def after(**places: Any) -> dict[str, JSON]:
    state: dict[str, Any] = copy.deepcopy(BEFORE)
    for name, value in places.items():
        state[name] = {**state[name], **value} if isinstance(value, dict) else [*state[name], *value]
    return state


REFERENCE = after(emails=email(2, "x") | email(3, "y"), users=["Bob"])


@pytest.mark.parametrize(
    ("attempt", "missing", "unexpected"),
    [
        pytest.param(after(emails=email(2, "y", "later") | email(3, "x"), users=["Bob"]), [], 0, id="order"),
        pytest.param(
            after(emails=email(2, "x") | email(3, "z"), users=["Bob"]),
            ['emails/+/recipients = "y"'],
            0,
            id="wrong value",
        ),
        pytest.param(
            after(emails=email(2, "x"), users=["Bob"]),
            ['emails/+/subject = "hi"', 'emails/+/recipients = "y"'],
            0,
            id="one is missing",
        ),
        pytest.param(
            after(emails=email(2, "x") | email(3, "y") | email(4, "y"), users=["Bob"]), [], 1, id="extra"
        ),
        pytest.param(
            after(emails=email(2, "x") | email(3, "y"), users=["Bob"], web_requests=["somewhere"]),
            [],
            0,
            id="looking is no deed",
        ),
        pytest.param(
            after(emails=email(2, "x") | email(3, "y"), users=["Bob"], log=[{"body": "first"}]),
            [],
            1,
            id="again",
        ),
        pytest.param(
            after(emails=email(2, "x") | email(3, "y"), users=["Bob"], initial_emails=["2"]),
            [],
            0,
            id="set-up",
        ),
    ],
)
def test_partial_attempts(attempt: JSON, missing: list[str], unexpected: int) -> None:
    found = compared(BEFORE, REFERENCE, attempt)
    assert [name for name, passed in found.expected if not passed] == missing
    assert len(found.unexpected) == unexpected


def test_a_surplus_recipient_is_unexpected() -> None:
    attempt = after(
        emails={"2": {"id_": "2", "subject": "hi", "recipients": ["x", "w"]}} | email(3, "y"), users=["Bob"]
    )
    assert compared(BEFORE, REFERENCE, attempt).unexpected == ('emails/+/recipients = "w"',)


def test_removed_item_is_one_change() -> None:
    assert [change.path for change in changes(BEFORE, {**BEFORE, "emails": {}})] == ["emails/1"]


def test_reading_counts_only_if_the_reference_reads() -> None:
    reference = after(web_requests=["here"])
    assert not compared(BEFORE, reference, BEFORE).expected[0][1]
    assert compared(BEFORE, reference, after(web_requests=["there", "here"])) == Comparison(
        (('web_requests/+ = "here"', True),), ()
    )
