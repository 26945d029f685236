"""The oracle and the no-op, as processes on a real server."""

import json
from typing import Any

import pytest

pytestmark = pytest.mark.system

CALLS = [("note", {"text": f"note {number}", "colour": "red"}) for number in range(10)]


def test_it_plays_every_call_in_order_and_tells_them(play: Any) -> None:
    calls = [("add", {"a": 2, "b": 3}), ("note", {"text": "é\u2028\n", "colour": "blue"})]
    result = play(calls, answer="five")
    assert (result.code, result.journal) == (0, calls)
    assert [(m["role"], m.get("content")) for m in result.messages] == [
        ("assistant", None),
        ("tool", "5"),
        ("assistant", None),
        ("tool", "noted é\u2028\n"),
        ("assistant", "five"),
    ]
    (call,) = result.messages[0]["tool_calls"]
    assert call["function"] == {"name": "add", "arguments": {"a": 2, "b": 3}}
    assert result.messages[1]["tool_call_id"] == call["id"]
    assert result.final == {"type": "final", "answer": "five"}
    assert not [event for event in result.events if event["type"] == "model"]


def test_the_answer_is_submitted_where_the_server_takes_answers(desk: Any, play: Any) -> None:
    desk.server_env["ANSWERS"] = "1"
    assert play(CALLS[:1], answer="six").journal == [*CALLS[:1], ("submit_answer", {"answer": "six"})]


def test_a_refused_call_does_not_stop_the_play(play: Any) -> None:
    result = play([("add", {"a": "no number"}), ("no_such_tool", {}), ("add", {"a": 1, "b": 1})])
    assert result.code == 0
    assert [is_error for _, is_error in result.results] == [True, True, False]
    assert result.journal == [("add", {"a": 1, "b": 1})]


def test_explained_calls_come_with_words(play: Any) -> None:
    result = play([("add", {"a": 17, "b": 3})], "--explain", prompt="Add 20 minus 3, and 3.")
    assert result.messages[0]["content"] == "20 - 3 = 17."


def test_dropped_calls_are_missing(play: Any) -> None:
    result = play(CALLS, "--drop", "0.3", "--seed", "5")
    assert len(result.journal) == 7
    assert [call for call in CALLS if call in result.journal] == result.journal


def test_spoiled_calls_are_made_with_other_values(play: Any) -> None:
    result = play(CALLS, "--spoil", "0.4")
    assert len(result.journal) == 10
    assert sum(before == after for before, after in zip(CALLS, result.journal, strict=True)) == 6
    assert not any(is_error for _, is_error in result.results), "a spoiled value still fits its schema"


def test_slips_are_refused_and_repaired(play: Any) -> None:
    result = play([("add", {"a": 1, "b": 2})] * 4, "--slips", "0.5")
    assert result.journal == [("add", {"a": 1, "b": 2})] * 4
    assert sum(is_error for _, is_error in result.results) == 2


def test_without_its_answer(desk: Any, play: Any) -> None:
    desk.server_env["ANSWERS"] = "1"
    result = play([*CALLS[:1], ("submit_answer", {"answer": "x"})], "--drop-answer", answer="secret")
    assert result.journal == CALLS[:1]
    assert result.final["answer"] == ""
    assert "secret" not in json.dumps(result.events)


@pytest.mark.parametrize(
    "stdin", ["", "{", "[]", '{"calls": [{}]}', '{"calls": [{"name": "a", "arguments": 1}]}']
)
def test_a_reference_that_is_none_is_wrong_use(desk: Any, stdin: str) -> None:
    result = desk.run("oracle", stdin=stdin)
    assert result.code == 2
    assert [kind for kind, _ in result.errors] == ["usage"]
    assert "stdin" in result.stderr and "Traceback" not in result.stderr


def test_a_share_above_one_is_wrong_use(play: Any) -> None:
    result = play(CALLS, "--drop", "1.5")
    assert (result.code, result.events) == (2, [])
    assert "1.5 is not between 0 and 1" in result.stderr


def test_the_noop_says_and_does_nothing(desk: Any) -> None:
    result = desk.run("noop")
    assert (result.code, result.events, result.journal) == (0, [], [])
