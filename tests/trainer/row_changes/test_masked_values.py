"""Rows with other names: what calls repeat is the same random word in the whole row."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_bench.trainer.row_changes.masked_values import with_masked_values
from mcp_bench.trainer.rows import Row

pytestmark = pytest.mark.unit

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "posts_update",
            "description": "Change a post.",
            "parameters": {"properties": {"team": {"enum": ["Sales", "Marketing"]}, "text": {}}},
        },
    }
]


def row(prompt: str, arguments: dict[str, Any], result: Any, *, system: str = "") -> Row:
    instructions = [{"role": "system", "content": system}] if system else []
    call = {"id": "1", "type": "function", "function": {"name": "posts_update", "arguments": arguments}}
    messages = [
        *instructions,
        {"role": "user", "content": prompt},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": json.dumps(result)},
        {"role": "assistant", "content": f"Done: {prompt}"},
    ]
    return Row("f:1", messages, TOOLS)


def masked(before: Row, seed: int = 0) -> Row:
    [after] = with_masked_values([before], 1, seed)
    assert after.tools == before.tools
    return after


def argument(after: Row) -> Any:
    calls = [call for message in after.messages for call in message.get("tool_calls") or []]
    return calls[0]["function"]["arguments"]


NAMES = st.lists(st.from_regex(r"[A-Z][a-z]{3,8}", fullmatch=True), min_size=1, max_size=4, unique=True)


@given(NAMES, st.integers(0, 99))
def test_a_name_is_one_other_word_everywhere(names: list[str], seed: int) -> None:
    name = " ".join(names)
    before = row(f"Find {name}, please.", {"text": name}, {"item": name, "note": f"first\n{name}\tlast"})
    after = masked(before, seed)
    given_name = argument(after)["text"]
    new = dict(zip(names, given_name.split(" "), strict=True))
    assert not set(names) & set(new.values())
    back = json.dumps(after.messages)
    for old, word in new.items():
        back = re.sub(rf"(?<![A-Za-z]){word}(?![A-Za-z])|(?<=\\[nt]){word}", old, back)
    assert json.loads(back) == before.messages


def test_the_parts_of_an_address_are_names_and_its_end_is_not() -> None:
    mail = "carla.sabry@ridgeway-brewing.example"
    after = masked(row(f"It is {mail} now.", {"text": mail}, {"email": mail}))
    new = argument(after)["text"]
    assert re.fullmatch(r"[a-z]+\.[a-z]+@[a-z]+-[a-z]+\.example", new)
    assert not {"carla", "sabry", "ridgeway", "brewing"} & set(re.findall("[a-z]+", new))
    assert json.loads(after.messages[2]["content"]) == {"email": new}


@pytest.mark.parametrize(
    ("prompt", "arguments"),
    [
        ("The team is Marketing.", {"team": "Marketing"}),  # a word of the tools
        ("Take Monday for this.", {"text": "Monday"}),  # a word of the instructions
        ("Pay INV-5994 today.", {"text": "INV-5994"}),  # a code
        ("Write something nice.", {"text": "Thank You"}),  # no copy
        ("Make it hot water.", {"text": "hot water"}),  # no name
        ("Add 17 to 2026-11-18.", {"count": 17, "days": ["2026-11-18", None]}),
        (f"Keep this: {'Long Text ' * 20}", {"text": f"{'Long Text ' * 20}"}),
    ],
)
def test_other_values_stay(prompt: str, arguments: dict[str, Any]) -> None:
    before = row(prompt, arguments, {"ok": True}, system="Weeks begin on Monday.")
    assert masked(before) is before


def test_capitals_stay_where_they_are() -> None:
    after = masked(row("Rename Titan, or TITAN, or titan.", {"text": "Titan"}, {}))
    word = argument(after)["text"]
    assert word != "Titan"
    assert after.messages[0]["content"] == f"Rename {word}, or {word.upper()}, or {word.lower()}."


def test_other_letters_are_no_names() -> None:
    """Python takes them for capitals of ours: the long s, the dotless i. Instructions can be empty, too."""
    before = row("Find \u017fal\u0131m, not Salim.", {"text": "Salim"}, {})
    before.messages.insert(0, {"role": "system", "content": None})
    after = masked(before)
    assert after.messages[1]["content"] == f"Find \u017fal\u0131m, not {argument(after)['text']}."


def test_a_share_of_the_rows_is_masked() -> None:
    rows = [row("Find Titan.", {"text": "Titan"}, {}) for _ in range(400)]
    after = with_masked_values(rows, 0.3, 0)
    assert 80 < sum(one is not other for one, other in zip(rows, after, strict=True)) < 160
    assert with_masked_values(rows, 0.0, 0) == rows
    assert with_masked_values(rows, 0.3, 0) == after
    assert with_masked_values(rows, 0.3, 1) != after
