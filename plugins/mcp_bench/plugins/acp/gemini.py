"""Gemini CLI over ACP. It keeps its log in another way than in its headless mode: all calls of a session are
in one message, and which answer asked for them is told by what goes back to the model next."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from mcp_bench.plugins.acp.session import Session
from mcp_bench.plugins.contracts import LaunchRequest, LentLogin, McpServer
from mcp_bench.plugins.gemini import agent as gemini
from mcp_bench.plugins.gemini.session import model_names, result_text, text_of, usage_of
from mcp_bench.plugins.json_lines import ODD, json_lines
from mcp_bench.plugins.turns import Turns

Lines = list[dict[str, Any]]


def configure(request: LaunchRequest) -> tuple[dict[str, str], LentLogin | None]:
    """Write its configuration, the server included; return the variables that go with it."""
    # It looks a call up under another name of the server than it was given. There is no other one.
    return gemini.configure(request, gemini.rule('"*"', "allow", 300, 'mcpName = "*"\n'))


def add_log(session: Session, home: Path, server: McpServer) -> None:
    """Take the story, the model and the usage from its log, where there is one. `home` is HOME."""
    lines = log(home, session.id)
    answers = list({line["id"]: line for line in lines if is_answer(line)}.values())
    if answers:
        session.turns = story(lines, model_names(server))
        session.usage = usage_of(None, answers)
        session.model = str(answers[-1].get("model"))


def log(home: Path, session: str | None) -> Lines:
    if not re.fullmatch(r"[0-9a-f-]{36}", session or ""):
        return []
    paths = sorted((home / ".gemini" / "tmp").glob(f"*/chats/session-*-{(session or '')[:8]}.jsonl"))
    return [line for path in paths for line in json_lines(path) if isinstance(line.get("id"), str)]


def is_answer(line: Mapping[str, Any]) -> bool:
    """Say whether a line is an answer of the model, which has a count of tokens."""
    return line.get("type") == "gemini" and isinstance(line.get("tokens"), dict)


def story(lines: Lines, names: Mapping[str, str]) -> Turns:
    """Put answers, calls and results together. `names` has the tools by the names that the model knows."""
    calls: dict[str, Mapping[str, Any]] = {}
    for line in lines:
        with suppress(*ODD):
            calls |= {call["id"]: call for call in line.get("toolCalls") or ()}
    turns, seen = Turns(), set[str]()
    for line in lines:
        if line["id"] in seen:
            continue
        with suppress(*ODD):
            if is_answer(line):
                seen.add(line["id"])
                turns.end()
                turns.reasoning("\n\n".join(filter(None, map(thought, line.get("thoughts") or ()))))
                turns.text(text_of(line["content"]))
            elif line["type"] == "user":
                seen.add(line["id"])
                for part in line["content"]:
                    if response := part.get("functionResponse"):
                        add_call(turns, calls.get(response["id"], {}), response, names)
    return turns


def add_call(
    turns: Turns, call: Mapping[str, Any], response: Mapping[str, Any], names: Mapping[str, str]
) -> None:
    name, result = str(response["name"]), response["response"]
    turns.call(response["id"], names.get(name, name), dict(call.get("args") or {}))
    turns.result(response["id"], result_text(result), is_error="error" in result)


def thought(one: Mapping[str, Any]) -> str:
    return "\n\n".join(filter(None, (one["subject"] and f"**{one['subject']}**", one["description"])))
