"""Errors of tools: what they have in common, and which were made again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_bench.recorder.conversations.errors import general, repeated_errors
from mcp_bench.recorder.trajectory import Message

pytestmark = pytest.mark.unit


def result(number: int, text: str, *, name: str = "find", failed: bool = True) -> Message:
    return Message(role="tool", name=name, content=text, tool_call_id=f"c{number}", is_error=failed)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("There is no contact 'ct_81f2'.", "There is no contact …."),
        ("amount must be at most 250,\n not 300.50", "amount must be at most …, not …"),
        ("ada@example.com is unknown", "… is unknown"),
        ("missing argument 'name'", "missing argument 'name'"),
        (
            '{"error": {"code": "not_found", "message": "No record with id \'ct_81f2\'.", "at": 7, "of": ["a1"]}}',
            '{"error": {"code": "not_found", "message": "No record with id ….", "at": "…", "of": ["…"]}}',
        ),
        ('{"error": "no JSON', '{…: "no JSON'),
    ],
)
def test_what_belongs_to_one_call_is_left_out(text: str, expected: str) -> None:
    assert general(text, keep={"name"}) == expected


@given(st.text(max_size=300))
def test_the_text_stays_one_short_line(text: str) -> None:
    found = general(text)
    assert len(found) <= 160
    assert "\n" not in found


def test_a_long_error_is_known_by_its_beginning() -> None:
    """All of a megabyte without a space would be searched for an address, from each of its characters."""
    assert general("Bad input 'a': " + "x" * 1_000_000) == "Bad input …: " + "x" * 147


def test_an_error_is_repeated_if_its_tool_failed_so_before() -> None:
    messages = [
        result(1, "There is no contact 'a1'."),
        result(2, "There is no contact 'a1'.", name="get"),
        result(3, "There is no contact 'b2'."),
        result(4, "Found.", failed=False),
        result(5, "Bad call."),
        result(6, "There is no contact 'c3'."),
        result(7, '{"error": {"code": "not_found", "message": "There is no contact \'a1\'."}}'),
        result(8, '{"error": {"code": "conflict", "message": "The contact \'a1\' is archived."}}'),
        result(9, '{"error": {"code": "not_found", "message": "There is no contact \'b2\'."}}'),
    ]
    assert repeated_errors(messages) == {"c3", "c6", "c9"}
