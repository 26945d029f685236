"""ShareGPT conversations, from our exports and other tools."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mcp_bench.recorder.formats.facts import KEY
from mcp_bench.recorder.importers import Row
from mcp_bench.recorder.importers.attempt import Attempt, RowError
from mcp_bench.recorder.importers.conversation import paired, tool_call, tool_schemas
from mcp_bench.recorder.importers.facts import facts, failed_calls
from mcp_bench.recorder.importers.json_rows import LINE_PATTERNS, first, parse, rows
from mcp_bench.recorder.importers.task_name import task_of_messages
from mcp_bench.recorder.trajectory import Message

_THINK = re.compile(r"<think>\n?(.*?)\n?</think>(?:\n\n|\s*)", re.DOTALL)


class ShareGPT:
    name = "sharegpt"
    summary = "ShareGPT conversations, as LLaMA-Factory reads them"
    patterns = LINE_PATTERNS

    def recognises(self, path: Path) -> bool:
        row = first(path)
        turns = row.get("conversations")
        if turns == []:
            return KEY in row  # our row of an agent that said nothing
        return isinstance(turns, list) and isinstance(turns[0], dict) and "from" in turns[0]

    def rows(self, path: Path) -> Iterator[Row]:
        return rows(path, _attempts)


def _attempts(row: dict[str, Any]) -> Iterator[Attempt]:
    turns = row["conversations"]
    exported = row.get(KEY)
    ours: dict[str, Any] = exported if isinstance(exported, dict) else {}
    if ours.get("unanswered") is not None:
        last = turns[-1]["from"] if turns else ""
        kind = "observation" if last == "function_call" else "human"
        turns = [*turns, {"from": kind, "value": ours["unanswered"]}]
    messages = [Message(role="system", content=row["system"])] if row.get("system") else []
    ids = iter(ours.get("ids") or ())
    texts = ours.get("texts") or {}
    calls = 0
    for number, turn in enumerate(turns):
        text = turn["value"]
        match turn["from"]:
            case "human" | "user":
                messages.append(Message(role="user", content=text))
            case "system":
                messages.append(Message(role="system", content=text))
            case "gpt" | "assistant":
                reasoning, text = _thought(text)
                if reasoning or text or not ours:  # our rows have an empty one where the agent said nothing
                    messages.append(Message(role="assistant", reasoning=reasoning, content=text or None))
            case "function_call":
                reasoning, text = _thought(text)
                listed = parse(text.encode())
                listed = listed if isinstance(listed, list) else [listed]
                calls = len(listed)
                made = [tool_call(next(ids, ""), call["name"], call.get("arguments")) for call in listed]
                messages.append(
                    Message(
                        role="assistant",
                        reasoning=reasoning,
                        content=texts.get(str(number)),
                        tool_calls=made,
                    )
                )
            case "observation" | "tool":
                messages += [Message(role="tool", content=result) for result in _results(text, calls)]
            case role:
                raise RowError(f"turn {number}: unknown sender {role!r}")
    failed = set(failed_calls(ours))
    messages = [
        message.model_copy(update={"is_error": message.tool_call_id in failed})
        if message.role == "tool"
        else message
        for message in paired(messages)
    ]
    about = facts(ours)
    about.setdefault("task", task_of_messages(messages))
    yield Attempt(messages=messages, tools=tool_schemas(row.get("tools")), **about)


def _thought(text: str) -> tuple[str | None, str]:
    found = _THINK.match(text)
    return (found[1], text[found.end() :]) if found else (None, text)


def _results(text: str, calls: int) -> list[str]:
    if calls > 1:
        try:
            results = parse(text.encode("utf-8", "replace"))
        except ValueError:
            results = None
        if isinstance(results, list) and all(isinstance(result, str) for result in results):
            return results
    return [text]
