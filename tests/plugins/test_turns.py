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


def acp_messages(tmp_path: Path, *steps: str) -> list[Message]:
    """Return what a session with these steps is read as.

    Args:
        steps: a text; `+1` begins a call with that id, `=1` ends it, `-1` refuses it; `.` ends the turn.
    """
    events: list[dict[str, Any]] = []
    for step in steps:
        sign, call = step[0], {"toolCallId": step[1:]}
        if sign == "+":
            update = {"sessionUpdate": "tool_call", **call, "title": "add", "status": "pending"}
        elif sign == "=":
            output = f"result {step[1:]}"
            update = {"sessionUpdate": "tool_call_update", **call, "status": "completed", "rawOutput": output}
        elif sign == "-":
            events.append({"type": "permission", "call": call, "tool": None, "allowed": False})
            continue
        elif sign == ".":
            events.append({"type": "stop", "result": {"stopReason": "end_turn"}})
            continue
        else:
            update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": step}}
        events.append({"type": "update", "update": update})
    stdout = tmp_path / "stdout"
    stdout.write_text("".join(json.dumps(event) + "\n" for event in events))
    return acp.read_session(stdout, SERVER).turns.messages()


@pytest.mark.parametrize(
    ("steps", "turns"),
    [
        ("+1 -1 no +2 =2 yes", ["1", ":no 2", ":yes"]),
        ("+1 -1 +2 =2 yes", ["1", "2", ":yes"]),
        ("+1 no +2 =2 more +3 =3 yes", [":no 1 2", ":more 3", ":yes"]),
        ("+1 +2 =2 yes =1", ["1 2", ":yes"]),
        ("+1 no .", ["1", ":no"]),
        ("+1 . late +2 =2 yes .", ["1", ":late 2", ":yes"]),
    ],
)
def test_an_acp_agent_may_never_end_a_call(tmp_path: Path, steps: str, turns: list[str]) -> None:
    """The turns after it are turns of their own, and the last one is the answer."""
    messages = acp_messages(tmp_path, *steps.split())
    shown = [
        " ".join([*([f":{said.content}"] if said.content else []), *(call.id for call in said.tool_calls)])
        for said in messages
        if said.role == "assistant"
    ]
    ended = {step for step in steps.split() if step.startswith("=")}
    assert (shown, len(messages) - len(shown)) == (turns, len(ended))
