"""Read a session of Qwen Code: stdout, and `~/.qwen/projects/<folder>/chats/<session>.jsonl`.

The events on stdout are much like those of Claude Code. The file has every answer of the model on one line,
with its usage, and every request that failed, side work included. But it is written late: for a session
that was killed, the events can have more.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcp_bench.plugins.agent_folder import AgentFolder
from mcp_bench.plugins.contracts import McpServer
from mcp_bench.plugins.output import ODD, Session, is_session_id, plus
from mcp_bench.plugins.text_files import json_lines

NAME_LENGTH = 63


@dataclass
class QwenSession(Session):
    servers: list[Any] = field(default_factory=list)
    """MCP servers with their status at the start."""
    denied: set[str] = field(default_factory=set)
    """Names of the server's tools that it was not allowed to call."""
    error: str = ""
    """Why the last request failed, unless a later one succeeded."""
    id: str | None = None


def model_names(server: McpServer) -> dict[str, str]:
    """Map the names that Qwen Code gives the server's tools to their own."""
    return {model_name(f"mcp__{server.name}__{tool}"): tool for tool in server.tools}


def model_name(name: str) -> str:
    """Return a name that a model API accepts. A name that has to change ends in a hash of the original."""
    if len(name) <= NAME_LENGTH and re.fullmatch(r"[A-Za-z0-9_-]+", name):
        return name
    suffix = f"_{name_hash(name)}"
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[: NAME_LENGTH - len(suffix)] + suffix


def name_hash(name: str) -> str:
    """Return the 32-bit FNV-1a hash of the UTF-16 code units, in base 36."""
    units = name.encode("utf-16-le")
    value = 2166136261
    for low, high in zip(units[::2], units[1::2], strict=True):
        value = ((value ^ (low + 256 * high)) * 16777619) % 2**32
    digits = ""
    while value:
        value, digit = divmod(value, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return digits.rjust(7, "0")


def read_session(stdout: Path, home: AgentFolder, server: McpServer) -> QwenSession:
    """Read a session as far as it exists and makes sense. `home` is `~/.qwen`."""
    session, streamed = QwenSession(), QwenSession()
    names = model_names(server)
    prefix = f"mcp__{server.name}__"
    events = list(json_lines(stdout))
    for event in events:
        with suppress(*ODD):
            if event["type"] == "system" and event["subtype"] == "init":
                session.model, session.id = str(event["model"]), str(event["session_id"])
                session.servers = list(event["mcp_servers"])
    add_log(session, home, session.id, server)
    logged = session.error
    for event in events:
        with suppress(*ODD):
            if event.get("subtype") == "init":
                session.error = logged  # the result of an earlier launch says nothing about this one
            elif event["type"] == "result":
                add_end(session, event, names, prefix)
            elif not event.get("parent_tool_use_id"):  # else it is part of a side conversation
                add_streamed(streamed, event, names, prefix)
    if len(streamed.turns.messages()) > len(session.turns.messages()):
        session.turns, session.usage = streamed.turns, streamed.usage
    return session


def session_id(events: Iterable[Mapping[str, Any]]) -> str | None:
    """Return the id of the session, if the events on stdout say it."""
    ids = [event.get("session_id") for event in events if event.get("subtype") == "init"]
    return ids[0] if ids and is_session_id(ids[0]) else None


def add_log(session: QwenSession, home: AgentFolder, session_id: str | None, server: McpServer) -> None:
    """Add the session's own file, which has every request, side work included."""
    names, prefix = model_names(server), f"mcp__{server.name}__"
    if is_session_id(session_id):
        for line in home.lines(f"projects/*/chats/{session_id}.jsonl"):
            with suppress(*ODD):
                add(session, line, names, prefix)


def add(session: QwenSession, line: Mapping[str, Any], names: Mapping[str, str], prefix: str) -> None:
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


def add_request(session: QwenSession, event: Mapping[str, Any]) -> None:
    match event["event.name"]:
        case "qwen-code.api_response":
            session.error = ""
            counts = (f"{kind}_token_count" for kind in ("input", "output", "cached_content"))
            session.usage = plus(session.usage, *(event[count] for count in counts))
        case "qwen-code.api_error":
            session.error = f"{event.get('status_code', '')} {event.get('error_message', '')}".strip()


def add_streamed(
    session: QwenSession, event: Mapping[str, Any], names: Mapping[str, str], prefix: str
) -> None:
    """Add an event of stdout: a part of an answer, or a result. The last part of an answer has its usage."""
    turns = session.turns
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
        session.usage = plus(session.usage, usage["input_tokens"], usage["output_tokens"], cached)


def add_end(session: QwenSession, event: Mapping[str, Any], names: Mapping[str, str], prefix: str) -> None:
    """Add the last event."""
    called = [str(denial["tool_name"]) for denial in event["permission_denials"]]
    session.denied = {
        names.get(name, name.removeprefix(prefix)) for name in called if name.startswith(prefix)
    }
    session.error = str(event["error"]["message"]) if event["is_error"] else ""
