"""Rows with fewer tools, and with names that say nothing: what a row calls stays, under one name everywhere."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from mcp_bench.trainer.cli.train import train
from mcp_bench.trainer.row_changes.tool_lists import ALIKE, with_fewer_tools, with_masked_names
from mcp_bench.trainer.rows import Row
from tests.support.training.byte_tokenizers import CHATML, byte_tokenizer

pytestmark = pytest.mark.component


def row(count: int, called: list[int]) -> dict[str, Any]:
    """Return a row with `count` tools, of which those at the indices `called` are called."""
    tools = [
        {"type": "function", "function": {"name": f"tool_{at}", "parameters": {}}} for at in range(count)
    ]
    calls = [
        {"id": str(at), "type": "function", "function": {"name": f"tool_{at}", "arguments": {}}}
        for at in called
    ]
    said = [{"role": "assistant", "tool_calls": calls}] if calls else []
    return {
        "messages": [
            {"role": "user", "content": "Do it."},
            *said,
            {"role": "assistant", "content": "Done."},
        ],
        "tools": tools,
    }


def names(tools: list[dict[str, Any]] | None) -> list[str]:
    return [tool["function"]["name"] for tool in tools or []]


@given(st.integers(0, 40), st.sets(st.integers(0, 39)), st.integers())
def test_what_is_called_stays_and_the_order_too(count: int, called: set[int], seed: int) -> None:
    wanted = [at for at in sorted(called) if at < count]
    whole = row(count, wanted)
    fewer = names(with_fewer_tools(Row("f:1", whole["messages"], whole["tools"]), str(seed)).tools)
    assert {f"tool_{at}" for at in wanted} <= set(fewer)
    assert fewer == [name for name in names(whole["tools"]) if name in fewer]
    assert len(fewer) >= min(1, count)


def test_lists_of_all_lengths_occur_and_short_ones_often() -> None:
    whole = row(32, [3, 20])
    given_row = Row("f:1", whole["messages"], whole["tools"])
    drawn = [names(with_fewer_tools(given_row, str(seed)).tools) for seed in range(400)]
    lengths = [len(tools) for tools in drawn]
    assert min(lengths) == 2
    assert max(lengths) > 28
    assert len(set(lengths)) > 25
    assert sum(length <= 8 for length in lengths) > 150  # half of a log-uniform draw from 2 to 32
    assert len({name for tools in drawn for name in tools}) == 32
    assert drawn == [names(with_fewer_tools(given_row, str(seed)).tools) for seed in range(400)]


KNOWN = {
    "id": {"type": "string"},
    "kind": {"enum": ["bug", "wish"]},
    "day": {"type": "string", "description": "ISO."},
}


def described(count: int, called: list[int], undescribed: int = 0) -> Row:
    """Return a row with texts and arguments; the last `undescribed` tools have only their names."""
    whole = row(count, called)
    for at, tool in enumerate(whole["tools"]):
        function = tool["function"]
        if at < count - undescribed:
            function["description"] = f"Does what {function['name']} does."
            function["parameters"] = {"properties": KNOWN, "required": ["id", "kind"]}
    messages = []
    for message in whole["messages"]:
        messages.append(message)
        for call in message.get("tool_calls") or []:
            call["function"]["arguments"] = {"id": "7", "kind": "bug", "color": "red"}
            result = {"role": "tool", "tool_call_id": call["id"], "name": call["function"]["name"]}
            listed = " ".join(names(whole["tools"]))
            failed = {**result, "content": f"kind, my_kind? Not among my_tool_1 {listed}", "is_error": True}
            messages += [failed, {**result, "content": '{"kind": "bug"}'}]
    return Row("f:1", messages, whole["tools"])


@given(st.integers(1, 20), st.data())
def test_a_masked_name_is_the_same_everywhere(count: int, data: st.DataObject) -> None:
    called = data.draw(st.lists(st.integers(0, count - 1), min_size=1, unique=True))
    undescribed = data.draw(st.integers(0, count))
    before = described(count, called, undescribed)
    (after,) = with_masked_names([before], 1, data.draw(st.integers()))
    renamed = dict(zip(names(before.tools), names(after.tools), strict=True))
    assert len(set(renamed.values())) == count
    for at, (old, new) in enumerate(renamed.items()):
        assert (old == new) == (at >= count - undescribed)
    for tool in (after.tools or [])[: count - undescribed]:
        schema = tool["function"]["parameters"]
        known = dict(zip(KNOWN, schema["properties"], strict=True))
        assert list(schema["properties"].values()) == list(KNOWN.values())
        assert [old for old, new in known.items() if old == new] == ["id"]
        assert schema["required"] == ["id", known["kind"]]
        renamed |= known
    calls = [call["function"] for said in after.messages for call in said.get("tool_calls") or []]
    errors = [said for said in after.messages if said.get("is_error")]
    results = [said for said in after.messages if said["role"] == "tool" and not said.get("is_error")]
    assert [call["name"] for call in calls] == [error["name"] for error in errors]
    assert [call["name"] for call in calls] == [renamed[f"tool_{at}"] for at in called]
    for at, call, error, result in zip(called, calls, errors, results, strict=True):
        kind = renamed["kind"] if at < count - undescribed else "kind"
        assert call["arguments"] == {"id": "7", kind: "bug", "color": "red"}
        listed = " ".join(names(after.tools))
        assert error["content"] == f"{kind}, my_kind? Not among my_tool_1 {listed}"
        assert result["content"] == '{"kind": "bug"}'
    back = json.dumps([after.messages, after.tools])
    for old, new in renamed.items():
        back = re.sub(rf"(?<!\w){new}(?!\w)", old, back)
    assert json.loads(back) == [before.messages, before.tools]


def test_a_share_of_the_rows_is_masked_and_neighbours_alike() -> None:
    rows = [described(5, [1]) for _ in range(100 * ALIKE)]
    masked = with_masked_names(rows, 0.3, 0)
    alike = [
        {tuple(names(one.tools)) for one in masked[at : at + ALIKE]} for at in range(0, len(rows), ALIKE)
    ]
    assert all(len(lists) == 1 for lists in alike)
    assert len({names for lists in alike for names in lists}) > 15
    assert 0.15 < sum(one is not other for one, other in zip(rows, masked, strict=True)) / len(rows) < 0.45
    assert with_masked_names(rows, 0.0, 0) == rows
    assert with_masked_names(rows, 0.3, 0) == masked
    assert with_masked_names(rows, 0.3, 1) != masked


@pytest.mark.parametrize(
    "tools", [None, [{"function": {"description": "It has no name."}}], [{"name": "unclear"}]]
)
def test_tools_that_say_too_little_stay(tools: list[dict[str, Any]] | None) -> None:
    row = Row("f:2", [{"role": "user", "content": "Is it unclear?"}], tools)
    assert with_masked_names([row], 1, 0) == [row]


def test_a_schema_that_is_a_boolean_is_none_with_values() -> None:
    tool = {"name": "t_1", "description": "Does it.", "parameters": {"properties": {"any": True}}}
    (after,) = with_masked_names([Row("f:2", [{"role": "user", "content": "t_1"}], [tool])], 1, 0)
    assert after.tools
    assert after.tools[0]["parameters"] == tool["parameters"]
    assert after.messages[0]["content"] == after.tools[0]["name"] != "t_1"


@pytest.mark.parametrize("change", [{"required": None}, {"properties": None, "required": None}])
def test_a_schema_with_null_for_a_list_is_one_without(change: dict[str, Any]) -> None:
    schema = {"properties": {"a": {"type": "string", "description": "A."}}, **change}
    tool = {"name": "t_1", "description": "Does it.", "parameters": schema}
    (after,) = with_masked_names([Row("f:2", [{"role": "user", "content": "t_1"}], [tool])], 1, 0)
    assert after.tools
    found = after.tools[0]["parameters"]
    assert found["required"] is None and len(found["properties"] or ()) == len(schema["properties"] or ())


WORDS = ("look", "bash", "Read", "SQL", "sign-up")
IDENTIFIERS = ("run_tests", "readFile", "WebSearch", "step2", "page.open")


def test_texts_keep_words_and_name_other_tools_anew() -> None:
    """The moves of a game, the script and the code are no tools; the one that a prompt names is."""
    listed = " ".join((*WORDS, *IDENTIFIERS))
    tools = [{"name": name, "description": f"See {listed}."} for name in (*WORDS, *IDENTIFIERS)]
    said: list[dict[str, Any]] = [
        {"role": "system", "content": f"Moves: {listed}"},
        {"role": "user", "content": f"Moves: {listed}"},
        {"role": "assistant", "content": f"I take {listed}", "reasoning_content": f"Not {listed}"},
        {"role": "tool", "name": "bash", "content": f"#!/bin/bash {listed}"},
        {"role": "tool", "name": "bash", "content": f"Unknown: {listed}", "is_error": True},
    ]
    (after,) = with_masked_names([Row("f:2", said, tools)], 1, 0)
    new = dict(zip((*WORDS, *IDENTIFIERS), [tool["name"] for tool in after.tools or []], strict=True))
    assert not new.keys() & set(new.values())
    partly = " ".join((*WORDS, *(new[name] for name in IDENTIFIERS)))
    assert [tool["description"] for tool in after.tools or []] == [f"See {partly}."] * len(new)
    system, user, assistant, result, error = after.messages
    assert system["content"] == user["content"] == f"Moves: {partly}"
    assert (assistant["content"], assistant["reasoning_content"]) == (f"I take {partly}", f"Not {partly}")
    assert result == {**said[3], "name": new["bash"]}
    assert error == {**said[4], "name": new["bash"], "content": f"Unknown: {' '.join(new.values())}"}


def test_descriptions_of_arguments_name_tools_anew() -> None:
    """Templates that show whole schemas would name a tool that is not in the list."""
    item = {"type": "string", "description": "From list_items, or list_items_all."}
    nested = {"anyOf": [item, {"type": "object", "properties": {"description": item}}]}
    schema = {"type": "object", "properties": {"id": nested}}
    tools = [
        {"name": "list_items", "description": "All."},
        {"name": "get", "description": "One.", "parameters": schema},
    ]
    (after,) = with_masked_names([Row("f:3", [{"role": "user", "content": "Go."}], tools)], 1, 0)
    listed, got = after.tools or []
    anew = json.dumps(schema).replace("list_items,", f"{listed['name']},")
    assert got["parameters"] == json.loads(anew) != schema


@pytest.mark.parametrize("setting", ["data.tools=sampled", "data.masked_names=0.5"])
def test_a_plan_counts_the_tokens_of_changed_lists(tmp_path: Path, setting: str) -> None:
    byte_tokenizer(CHATML).save_pretrained(tmp_path / "tokenizer")
    data = tmp_path / "train.jsonl"
    rows = [described(6, [at], 3) for at in range(6)]
    lines = [json.dumps({"messages": one.messages, "tools": one.tools}) for one in rows]
    data.write_text("\n".join(lines))
    tokenizer = ["--tokenizer", str(tmp_path / "tokenizer")]
    arguments = [
        "plan",
        "tiny-cpu",
        "--set",
        "data.max_length=2048",
        "--data",
        str(data),
        *tokenizer,
        "--json",
    ]

    def tokens(*overrides: str) -> int:
        result = CliRunner().invoke(train, [*arguments, *overrides], catch_exceptions=False)
        found: int = json.loads(result.stdout)["data"]["tokens"]
        return found

    changed = tokens("--set", setting)
    assert changed != tokens()
    assert changed == tokens("--set", setting)
    assert changed != tokens("--set", setting, "--set", "training.seed=1")
    if setting == "data.tools=sampled":
        assert changed < 0.8 * tokens()
