"""Read a session of Codex: `$CODEX_HOME/sessions/YYYY/MM/DD/rollout-*-<thread>.jsonl`.

The file has more than the events on stdout: which calls are parallel, and the usage of every answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from mcp_bench.plugins.agent_folder import AgentFolder
from mcp_bench.plugins.contracts import McpServer
from mcp_bench.plugins.output import ODD, Session, Turns, is_session_id, plus
from mcp_bench.plugins.text_files import parse
from mcp_bench.recorder.trajectory import Usage


@dataclass
class CodexSession(Session):
    events: list[Mapping[str, Any]] = field(default_factory=list)
    """The events on stdout."""


def read_session(home: AgentFolder, events: Iterable[Mapping[str, Any]], server: McpServer) -> CodexSession:
    """Read the session of the `events` on stdout, as far as it makes sense. `home` is CODEX_HOME."""
    session = CodexSession(events=list(events))
    if thread := thread_of(session.events):
        for line in home.lines(f"sessions/*/*/*/rollout-*{thread}.jsonl"):
            with suppress(*ODD):
                add(session, line, server)
    return session


def thread_of(events: Iterable[Mapping[str, Any]]) -> str | None:
    """Return the id of the session, if the events on stdout say it."""
    started = next((event for event in events if event.get("type") == "thread.started"), {})
    thread = started.get("thread_id")
    return thread if is_session_id(thread) else None


def add(session: Session, line: Mapping[str, Any], server: McpServer) -> None:
    payload = line["payload"]
    match line["type"]:
        case "turn_context":
            session.model = str(payload["model"])
        case "response_item":
            add_item(session.turns, payload)
        case "event_msg" if payload["type"] == "item_completed":
            if payload["item"]["type"] == "McpToolCall" and payload["item"]["server"] == server.name:
                add_mcp_call(session.turns, payload["item"])
        case "token_usage_record":
            session.usage = plus_record(session.usage, payload["usage"])


def add_item(turns: Turns, item: Mapping[str, Any]) -> None:
    """Add an item that went to the model or came from it."""
    match item["type"]:
        case "reasoning":
            parts = item.get("summary") or item.get("content") or []
            turns.reasoning("\n\n".join(part["text"] for part in parts))
        case "message" if item["role"] == "assistant":
            turns.text(text_of(item["content"]))
        case "function_call":
            turns.call(item["call_id"], item["name"], arguments(item["arguments"]))
        case "custom_tool_call":
            turns.call(item["call_id"], item["name"], {"input": item["input"]})
        case "function_call_output" | "custom_tool_call_output":
            turns.end()  # results are written once the model's answer is complete
            turns.result(item["call_id"], text_of(item["output"]))


def add_mcp_call(turns: Turns, item: Mapping[str, Any]) -> None:
    """Add the outcome of an MCP call. Codex adds words of its own to what the model gets."""
    if call := turns.find(item["id"]):
        call.function.name = str(item["tool"])  # the model knows it by a name that its API accepts
    else:  # made by a script that the model wrote
        turns.call(item["id"], item["tool"], item["arguments"])
    result = item.get("result")
    if isinstance(result, dict) and "content" in result:
        turns.result(item["id"], text_of(result["content"]), is_error=bool(result.get("isError")))
    else:
        turns.result(item["id"], json.dumps(item.get("error") or result), is_error=True)


def arguments(text: str) -> dict[str, Any]:
    """Return the arguments of a call; text that is not a JSON object is kept as `input`."""
    try:
        value = parse(text)
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {"input": text}


def text_of(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(part["text"] for part in content if "text" in part)
    return str(content)


def plus_record(total: Usage | None, record: Mapping[str, int]) -> Usage:
    return plus(total, record["input_tokens"], record["output_tokens"], record.get("cached_input_tokens", 0))
