"""Read a session of Claude Code: stdout (`--output-format stream-json`) and its project files.

A message comes in parts, one event for each block. The parts share `message.id` and repeat the usage as it
was when the message began. The final usage is in the last event, `result`, or, for a session that was cut
off, in `$CLAUDE_CONFIG_DIR/projects/<folder>/<session>.jsonl`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcp_bench.plugins.agent_folder import AgentFolder
from mcp_bench.plugins.contracts import McpServer
from mcp_bench.plugins.output import ODD, Session, is_session_id
from mcp_bench.plugins.text_files import json_lines
from mcp_bench.recorder.trajectory import Usage

SYNTHETIC = "<synthetic>"
"""The model of messages that the program wrote itself, to report an error."""


@dataclass
class ClaudeSession(Session):
    servers: list[Any] = field(default_factory=list)
    """MCP servers with their status at the start."""
    denied: set[str] = field(default_factory=set)
    """Names of the server's tools that it was not allowed to call."""
    result: dict[str, Any] | None = None
    """The last event, if the last launch came to its end."""
    retrying: str = ""
    """The error after which it tried again, if nothing followed."""
    id: str | None = None
    message_ids: set[str] = field(default_factory=set)
    """Ids of the model's messages."""


def model_names(server: McpServer) -> dict[str, str]:
    """Map the names that Claude Code gives the server's tools to their own: a model API restricts names."""
    return {f"mcp__{server.name}__{re.sub(r'[^a-zA-Z0-9_-]', '_', tool)}": tool for tool in server.tools}


def read_session(stdout: Path, home: AgentFolder, server: McpServer) -> ClaudeSession:
    """Read a session as far as it exists and makes sense. `home` is CLAUDE_CONFIG_DIR."""
    session = ClaudeSession()
    for event in json_lines(stdout):
        with suppress(*ODD):
            add(session, event, model_names(server))
    session.usage = usage_of(session, home)
    return session


def session_id(events: Iterable[Mapping[str, Any]]) -> str | None:
    """Return the id of the session, if the events on stdout say it."""
    ids = [event.get("session_id") for event in events if event.get("subtype") == "init"]
    return ids[-1] if ids and is_session_id(ids[-1]) else None


def add(session: ClaudeSession, event: dict[str, Any], names: Mapping[str, str]) -> None:
    if event.get("parent_tool_use_id"):
        return  # part of a side conversation
    kind = event["type"]
    if kind in ("system", "assistant", "result") and event.get("subtype") != "thinking_tokens":
        session.retrying = ""
    match kind, event.get("subtype"):
        case "system", "init":
            session.model, session.id = str(event["model"]), str(event["session_id"])
            session.servers = list(event["mcp_servers"])
            session.result = None  # that of an earlier launch says nothing about this one
        case "system", "api_retry":
            session.retrying = f"{event.get('error_status')} {event.get('error')}"
        case "system", "permission_denied" if event["tool_name"] in names:
            session.denied.add(names[event["tool_name"]])
        case "assistant", _ if event["message"]["model"] != SYNTHETIC:
            add_part(session, event["message"], names)
        case "user", _:
            for block in event["message"]["content"]:
                if block["type"] == "tool_result":
                    text, is_error = text_of(block["content"]), bool(block.get("is_error"))
                    session.turns.result(block["tool_use_id"], text, is_error=is_error)
        case "result", _:
            session.result = event


def add_part(session: ClaudeSession, message: Mapping[str, Any], names: Mapping[str, str]) -> None:
    if message["id"] not in session.message_ids:
        session.turns.end()
        session.message_ids.add(message["id"])
    session.model = str(message["model"])
    for block in message["content"]:
        match block["type"]:
            case "thinking":
                session.turns.reasoning(block["thinking"])
            case "text":
                session.turns.text(block["text"])
            case "tool_use":
                session.turns.call(block["id"], names.get(block["name"], block["name"]), block["input"])


def text_of(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(part["text"] for part in content if part["type"] == "text")
    return str(content)


def usage_of(session: ClaudeSession, home: AgentFolder) -> Usage | None:
    with suppress(*ODD):
        models = list((session.result or {})["modelUsage"].values())
        if models:
            return final_usage(models, session)
    with suppress(*ODD):
        if is_session_id(session.id):
            return counted(home.lines(f"projects/*/{session.id}.jsonl"))
    return None


def final_usage(models: list[Mapping[str, Any]], session: ClaudeSession) -> Usage:
    """Return the usage of all models, side work included. An estimated cost is left out."""

    def total(key: str) -> int:
        return sum(int(model[key]) for model in models)

    known = all(model.get("costBasis") != "unknown" for model in models)
    cached = total("cacheReadInputTokens")
    return Usage(
        input_tokens=total("inputTokens") + total("cacheCreationInputTokens") + cached,
        output_tokens=total("outputTokens"),
        cached_tokens=cached,
        model_calls=len(session.message_ids),
        cost_usd=float((session.result or {})["total_cost_usd"]) if known else None,
    )


def counted(lines: Iterable[Mapping[str, Any]]) -> Usage | None:
    """Return the sum over the messages in a project file. The last line of each message counts."""
    last: dict[str, Mapping[str, Any]] = {}
    for line in lines:
        with suppress(*ODD):
            if line["type"] == "assistant" and line["message"]["model"] != SYNTHETIC:
                last[line["message"]["id"]] = line["message"]["usage"]
    if not last:
        return None

    def total(key: str) -> int:
        return sum(int(usage.get(key) or 0) for usage in last.values())

    cached = total("cache_read_input_tokens")
    return Usage(
        input_tokens=total("input_tokens") + total("cache_creation_input_tokens") + cached,
        output_tokens=total("output_tokens"),
        cached_tokens=cached,
        model_calls=len(last),
    )
