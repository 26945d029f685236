"""Importers for the session files of people's own agents (`mcp-bench import`).

Codex: `~/.codex/sessions/YYYY/MM/DD/rollout-*.jsonl`. Claude Code: `~/.claude/projects/FOLDER/SESSION.jsonl`.
A file is one session without a grade. It does not list the tools, so their schemas are unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from mcp_bench.plugins.claude_code import session as claude_session
from mcp_bench.plugins.codex import session as codex_session
from mcp_bench.plugins.output import ODD, Session, Turns
from mcp_bench.plugins.text_files import json_lines
from mcp_bench.recorder.importers import Row
from mcp_bench.recorder.importers.attempt import Attempt, RowError
from mcp_bench.recorder.importers.conversation import paired
from mcp_bench.recorder.importers.task_name import task_of
from mcp_bench.recorder.trajectory import Message, Usage


class CodexSessions:
    name = "codex"
    summary = "Codex's session files"
    patterns = ("rollout-*.jsonl",)

    def recognises(self, path: Path) -> bool:
        first: Mapping[str, Any] = next(json_lines(path), {})
        payload = first.get("payload")
        return first.get("type") == "session_meta" and isinstance(payload, dict) and "cli_version" in payload

    def rows(self, path: Path) -> Iterator[Row]:
        yield Row("the session", partial(_codex, path))


class ClaudeCodeSessions:
    name = "claude-code"
    summary = "Claude Code's session files"
    patterns = ("-".join("?" * length for length in (8, 4, 4, 4, 12)) + ".jsonl",)

    def recognises(self, path: Path) -> bool:
        keys = {"sessionId", "parentUuid", "version"}
        return any(keys <= line.keys() for _, line in zip(range(50), json_lines(path), strict=False))

    def rows(self, path: Path) -> Iterator[Row]:
        yield Row("the session", partial(_claude, path))


class _Conversation:
    """User messages, each followed by the agent's turns."""

    def __init__(self) -> None:
        self._done: list[Message] = []
        self.turns = Turns()

    def user(self, text: str) -> None:
        if text:
            self._done += [*self.turns.messages(), Message(role="user", content=text)]
            self.turns = Turns()

    def messages(self) -> list[Message]:
        return paired([*self._done, *self.turns.messages()])


def _codex(path: Path) -> list[Attempt]:
    conversation, session, meta = _Conversation(), Session(), {}
    for line in json_lines(path):
        with suppress(*ODD):
            payload = line["payload"]
            match line["type"], payload.get("type"):
                case "session_meta", _:
                    meta = payload
                case "turn_context", _:
                    session.model = str(payload["model"])
                case "token_usage_record", _:
                    session.usage = codex_session.plus_record(session.usage, payload["usage"])
                case "response_item", _:
                    codex_session.add_item(conversation.turns, payload)
                case "event_msg", "user_message":
                    conversation.user(str(payload["message"]))
                case "event_msg", "item_completed" if payload["item"]["type"] == "UserMessage":
                    conversation.user(codex_session.text_of(payload["item"]["content"]))
                case "event_msg", "item_completed" if payload["item"]["type"] == "McpToolCall":
                    codex_session.add_mcp_call(conversation.turns, payload["item"])
    about = {"id": meta.get("id"), "agent_version": meta.get("cli_version"), "model": session.model}
    return [_attempt("codex", conversation.messages(), session.usage, meta.get("timestamp"), about)]


def _claude(path: Path) -> list[Attempt]:
    conversation, session = _Conversation(), claude_session.ClaudeSession()
    lines = [line for line in json_lines(path) if not line.get("isSidechain")]
    first: Mapping[str, Any] = {}
    for line in lines:
        with suppress(*ODD):
            message = line["message"]
            first = first or line
            if line["type"] == "user" and not line.get("isMeta"):
                conversation.user(_user_text(message["content"]))
            session.turns = conversation.turns
            claude_session.add(session, line, _McpNames())
    about = {"id": first.get("sessionId"), "agent_version": first.get("version"), "model": session.model}
    usage = claude_session.counted(lines)
    return [_attempt("claude-code", conversation.messages(), usage, first.get("timestamp"), about)]


class _McpNames(dict[str, str]):
    """Maps the names that Claude Code gives the tools of any server, `mcp__SERVER__TOOL`, to their own."""

    def get(self, name: str, default: Any = None) -> Any:
        start, _, rest = name.removeprefix("mcp__").partition("__")
        return rest if name.startswith("mcp__") and start and rest else default


def _user_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] for block in content if block.get("type") == "text")


def _attempt(
    agent: str, messages: list[Message], usage: Usage | None, start: Any, about: Mapping[str, Any]
) -> Attempt:
    if not any(message.role == "assistant" for message in messages):
        raise RowError("it has no message of an agent")
    started = None
    with suppress(*ODD):
        started = int(datetime.fromisoformat(start).timestamp() * 1_000_000)
    prompt = next((message.content for message in messages if message.role == "user"), None)
    return Attempt(
        messages=messages, task=task_of(prompt), agent=agent, usage=usage, started_us=started, **about
    )
