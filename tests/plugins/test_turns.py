"""The conversation of an agent, also if the model's endpoint gives later calls the ids of earlier ones."""

import json
from pathlib import Path
from typing import Any

import pytest

from mcp_bench.plugins.acp import session as acp
from mcp_bench.plugins.agent_folder import hold
from mcp_bench.plugins.codex import session as codex
from mcp_bench.plugins.sdk import McpServer, Message, Turns

pytestmark = pytest.mark.unit

SERVER = McpServer("desk", ("server",), ("add", "note"))
THREAD = "01234567-0123-0123-0123-0123456789ab"


def said(messages: list[Message]) -> list[Any]:
    """Return names and arguments of calls, each turn's in a list, and the texts of results."""
    return [
        message.content
        if message.role == "tool"
        else [(call.function.name, call.function.arguments) for call in message.tool_calls]
        for message in messages
    ]


def test_each_call_has_its_own_result_if_ids_come_again() -> None:
    turns = Turns()
    for number in range(3):
        turns.call("call_0", "read", {"n": number})
        if number != 1:
            turns.result("call_0", f"result {number}")
            turns.result("call_0", "the agent's own words")
        turns.end()
    assert said(turns.messages()) == [
        [("read", {"n": 0})], "result 0", [("read", {"n": 1})], [("read", {"n": 2})], "result 2",
    ]  # fmt: skip


def test_parallel_calls_are_answered_in_their_order() -> None:
    turns = Turns()
    turns.result("c", "early")
    for call_id, rank in (("b", "2"), ("a", "1"), ("c", "3")):
        turns.call(call_id, "read", {"id": call_id}, rank=rank)
        turns.result(call_id, call_id)
    assert said(turns.messages()) == [[("read", {"id": name}) for name in "abc"], "a", "b", "early"]


def test_codex_names_each_call_by_its_own_tool(tmp_path: Path) -> None:
    lines = []
    for tool, result in (("add", "1"), ("note", "2")):
        name = f"mcp__desk__{tool}"
        call = {"type": "function_call", "call_id": "call_0", "name": name, "arguments": "{}"}
        item = {"type": "McpToolCall", "id": "call_0", "server": "desk", "tool": tool, "arguments": {}}
        item["result"] = {"content": [{"type": "text", "text": result}]}
        output = {"type": "function_call_output", "call_id": "call_0", "output": "Wall time: 1"}
        lines += [
            {"type": "response_item", "payload": call},
            {"type": "event_msg", "payload": {"type": "item_completed", "item": item}},
            {"type": "response_item", "payload": output},
        ]
    rollout = tmp_path / f"sessions/2026/01/01/rollout-{THREAD}.jsonl"
    rollout.parent.mkdir(parents=True)
    rollout.write_text("".join(json.dumps(line) + "\n" for line in lines))
    started = {"type": "thread.started", "thread_id": THREAD}
    session = codex.read_session(hold(tmp_path), [started], SERVER)
    assert said(session.turns.messages()) == [[("add", {})], "1", [("note", {})], "2"]


def test_an_acp_agent_may_use_ids_again(tmp_path: Path) -> None:
    updates: list[dict[str, Any]] = []
    for number in range(2):
        calls = [
            {"toolCallId": f"call_{place}", "title": "add", "rawInput": {"n": number, "place": place}}
            for place in range(2)
        ]
        for status in ("pending", "in_progress"):
            updates += [{"sessionUpdate": "tool_call", **call, "status": status} for call in calls]
        for call in calls:
            output = f"result {number} {call['toolCallId']}"
            done = {"sessionUpdate": "tool_call_update", "toolCallId": call["toolCallId"]}
            updates.append({**done, "status": "completed", "rawOutput": output})
        updates.append({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "So."}})
        for known in ({"toolCallId": "call_0"}, calls[1]):
            updates.append({"sessionUpdate": "tool_call_update", **known, "status": "completed"})  # late
    stdout = tmp_path / "stdout"
    stdout.write_text("".join(json.dumps({"type": "update", "update": update}) + "\n" for update in updates))
    messages = acp.read_session(stdout, SERVER).turns.messages()
    assert [item for item in said(messages) if item] == [
        [("add", {"n": 0, "place": 0}), ("add", {"n": 0, "place": 1})], "result 0 call_0", "result 0 call_1",
        [("add", {"n": 1, "place": 0}), ("add", {"n": 1, "place": 1})], "result 1 call_0", "result 1 call_1",
    ]  # fmt: skip
