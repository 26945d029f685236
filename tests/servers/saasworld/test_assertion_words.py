"""What stored assertions require, and what the final state has instead, in words."""

from __future__ import annotations

import anyio
import pytest

from mcp_bench.servers.contracts import AssertionResult
from mcp_bench.servers.saasworld import BENCHMARK
from tests.support.saas import graded, kinds, opened, play, task_id

pytestmark = pytest.mark.unit


def described(name: str, *changes: tuple[str, str, object, object], passed: bool = False) -> tuple[str, str]:
    names = ("collection", "id", "before", "after")
    state = {"now": "", "changes": [dict(zip(names, change, strict=True)) for change in changes]}
    return BENCHMARK.describe(AssertionResult(name=name, passed=passed), state)


@pytest.mark.parametrize(
    ("matcher", "words"),
    [
        ({"equals": "won"}, 'is "won"'),
        ({"equals": None}, "is empty"),
        ({"keys": ["A", "B"]}, 'has no keys but "A", "B"'),
        ({"one_of": [1, 2]}, "is one of 1, 2"),
        ({"mentions": [["a", "b"], ["c"]], "never": ["d"]}, 'mentions "a" or "b" and "c", and not "d"'),
        ({"within": ["2026-01-01", "2026-01-31"]}, 'is from "2026-01-01" to "2026-01-31"'),
        ({"created": {"collection": "crm.notes", "where": {"text": {"equals": "x"}}}},
         'is the new record in crm.notes (text is "x")'),
    ],
)  # fmt: skip
def test_requirements(matcher: dict[str, object], words: str) -> None:
    name = f"crm.deals d_1: stage is {matcher}"
    assert described(name, passed=True) == (f"crm.deals d_1: stage {words}", "")


def test_what_was_found_instead() -> None:
    name = "crm.deals d_1: stage is {'equals': 'won'}"
    before = {"id": "d_1", "stage": "open", "title": "T"}
    for after, found in (
        ({**before, "stage": "lost"}, 'stage is "lost"'),
        ({**before, "title": "U"}, 'stage is still "open"'),
        ({"id": "d_1"}, "stage is empty"),
        (None, "the record was deleted"),
    ):
        assert described(name, ("crm.deals", "d_1", before, after))[1] == found
    assert described(name)[1] == "the record was not changed"
    new = "new in crm.notes (no. 1): {'text': {'equals': 'x'}}"
    assert described(new) == ('a new record in crm.notes: text is "x"', "no new record there")
    note = ("crm.notes", "n_1", None, {"id": "n_1", "text": "y"})
    assert described(new, note)[1] == '1 new there: text "y"'
    details = "new in crm.notes, with details: {'text': {'equals': 'x'}}"
    assert described(details)[0] == 'a new record in crm.notes with all details: text is "x"'
    assert described("nothing else changed in crm.notes", note)[1] == "all changes there: n_1 is new"
    undone = ("crm.notes", "n_2", {"id": "n_2"}, {"id": "n_2", "tags": []})
    assert described("nothing else changed in crm.notes", undone, note)[1] == "all changes there: n_1 is new"
    assert described("crm.notes n_1 is deleted")[1] == "it is still there"
    assert described("any other name") == ("any other name", "")


def test_a_column_with_spaces() -> None:
    name = "sheets.rows r_1: values.Forecast USD is {'one_of': [7, '7']}"
    row = {"id": "r_1", "values": {"Forecast USD": 5}}
    other = {"id": "r_1", "values": {"Forecast USD": 6}}
    required = 'sheets.rows r_1: values.Forecast USD is one of 7, "7"'
    assert described(name, passed=True) == (required, "")
    assert described(name, ("sheets.rows", "r_1", row, other)) == (required, "values.Forecast USD is 6")


def test_every_family_s_assertions_have_words() -> None:
    """After the first half of the reference, each requirement is in words, and each failure says what is found."""
    for kind in kinds()[::9]:
        task = task_id(kind, 0)
        world = opened(task)
        calls = BENCHMARK.reference(task).calls
        play(world, calls[: len(calls) // 2])
        state = anyio.run(world.snapshot)
        for assertion in graded(world).assertions:
            required, found = BENCHMARK.describe(assertion, state)
            assert "{'" not in required, required
            assert bool(found) is not assertion.passed, (assertion, found)
