"""What Qwen Code says of a session: events on stdout, and `~/.qwen/projects/<folder>/chats/<session>.jsonl`.

The events are those of Claude Code, more or less. The file has every answer of the model as one line, with
its usage, and every request that failed, side work included; but it is written late, so that of a session
that was killed the events may tell more.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcp_bench.plugins.contracts import McpServer
from mcp_bench.plugins.json_lines import ODD, json_lines
from mcp_bench.plugins.turns import Turns
from mcp_bench.recorder.trajectory import Usage

NAME_LENGTH = 63


@dataclass
class Session:
    turns: Turns = field(default_factory=Turns)
    usage: Usage | None = None
    """Sum over all answers of the model, side work included."""
    model: str | None = None
    servers: list[Any] = field(default_factory=list)
    """MCP servers as they stood at the start."""
    denied: set[str] = field(default_factory=set)
    """Names of the server's tools that it was not allowed to call."""
    error: str = ""
    """Why the last request failed, where none came after it that did not."""
    id: str | None = None


def model_names(server: McpServer) -> dict[str, str]:
    """Return the server's tools by the names that Qwen Code gives them."""
    return {model_name(f"mcp__{server.name}__{tool}"): tool for tool in server.tools}


def model_name(name: str) -> str:
    """Return a name as a model API takes it: one that has to be changed ends in a hash of what it was."""
    if len(name) <= NAME_LENGTH and re.fullmatch(r"[A-Za-z0-9_-]+", name):
        return name
    suffix = f"_{name_hash(name)}"
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[: NAME_LENGTH - len(suffix)] + suffix


def name_hash(name: str) -> str:
    """Return FNV-1a of 32 bits over UTF-16 code units, in base 36."""
    units = name.encode("utf-16-le")
    value = 2166136261
    for low, high in zip(units[::2], units[1::2], strict=True):
        value = ((value ^ (low + 256 * high)) * 16777619) % 2**32
    digits = ""
    while value:
        value, digit = divmod(value, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return digits.rjust(7, "0")


def read_session(stdout: Path, home: Path, server: McpServer) -> Session:
    """Read a session as far as it is there and makes sense. `home` is `~/.qwen`."""
    session, told = Session(), Session()
    names = model_names(server)
    prefix = f"mcp__{server.name}__"
    events = list(json_lines(stdout))
    for event in events:
        with suppress(*ODD):
            if event["type"] == "system" and event["subtype"] == "init":
                session.model, session.id = str(event["model"]), str(event["session_id"])
                session.servers = list(event["mcp_servers"])
    if re.fullmatch(r"[0-9a-f-]{36}", session.id or ""):
        for path in sorted((home / "projects").glob(f"*/chats/{session.id}.jsonl")):
            for line in json_lines(path):
                with suppress(*ODD):
                    add(session, line, names, prefix)
    for event in events:
        with suppress(*ODD):
            if event["type"] == "result":
                add_end(session, event, names, prefix)
            elif not event.get("parent_tool_use_id"):  # else it is of a side conversation
                add_told(told, event, names, prefix)
    if len(told.turns.messages()) > len(session.turns.messages()):
        session.turns, session.usage = told.turns, told.usage
    return session


def add(session: Session, line: Mapping[str, Any], names: Mapping[str, str], prefix: str) -> None:
    turns = session.turns
    match line["type"], line.get("subtype"):
        case "assistant", _:
            turns.end()
            session.model = str(line["model"])
            for part in line["message"]["parts"]:
                if "functionCall" in part:
                    call = part["functionCall"]
                    called = str(call["name"])
                    turns.call(call["id"], names.get(called, called.removeprefix(prefix)), call["args"])
                elif part.get("thought"):
                    turns.reasoning(part["text"])
                else:
                    turns.text(part["text"])
        case "tool_result", _:
            for part in line["message"]["parts"]:
                response = part["functionResponse"]["response"]
                text = response.get("output", response.get("error"))
                text = text if isinstance(text, str) else json.dumps(response, ensure_ascii=False)
                turns.result(part["functionResponse"]["id"], text, is_error="error" in response)
        case "system", "ui_telemetry":
            add_request(session, line["systemPayload"]["uiEvent"])


def add_request(session: Session, event: Mapping[str, Any]) -> None:
    match event["event.name"]:
        case "qwen-code.api_response":
            session.error = ""
            counts = (f"{kind}_token_count" for kind in ("input", "output", "cached_content"))
            session.usage = plus(session.usage, *(event[count] for count in counts))
        case "qwen-code.api_error":
            session.error = f"{event.get('status_code', '')} {event.get('error_message', '')}".strip()


def add_told(told: Session, event: Mapping[str, Any], names: Mapping[str, str], prefix: str) -> None:
    """Add a part of an answer, or a result, out of the events. The last part of an answer has its usage."""
    turns = told.turns
    message = event["message"]
    for block in message["content"]:
        match block["type"]:
            case "thinking":
                turns.reasoning(block["thinking"])
            case "text" if not block["text"].startswith("[API Error"):
                turns.text(block["text"])
            case "tool_use":
                called = str(block["name"])
                turns.call(block["id"], names.get(called, called.removeprefix(prefix)), block["input"])
            case "tool_result":
                turns.end()
                turns.result(block["tool_use_id"], str(block["content"]), is_error=bool(block["is_error"]))
    if event["type"] == "assistant" and message["usage"]["input_tokens"]:
        usage = message["usage"]
        cached = usage.get("cache_read_input_tokens", 0)
        told.usage = plus(told.usage, usage["input_tokens"], usage["output_tokens"], cached)


def plus(total: Usage | None, read: int, written: int, cached: int) -> Usage:
    total = total or Usage()
    return Usage(
        input_tokens=(total.input_tokens or 0) + read,
        output_tokens=(total.output_tokens or 0) + written,
        cached_tokens=(total.cached_tokens or 0) + cached,
        model_calls=(total.model_calls or 0) + 1,
    )


def add_end(session: Session, event: Mapping[str, Any], names: Mapping[str, str], prefix: str) -> None:
    """Add what the last event tells."""
    called = [str(denial["tool_name"]) for denial in event["permission_denials"]]
    session.denied = {
        names.get(name, name.removeprefix(prefix)) for name in called if name.startswith(prefix)
    }
    session.error = str(event["error"]["message"]) if event["is_error"] else ""
