"""Gemini CLI over ACP.

Its log differs from that of its headless mode: all calls of a session are in one message. The results that go
back to the model next show which answer made them.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from mcp_bench.plugins.acp.session import AcpSession
from mcp_bench.plugins.agent_folder import AgentFolder
from mcp_bench.plugins.contracts import LaunchRequest, LentLogin, McpServer
from mcp_bench.plugins.gemini.agent import Gemini, rule
from mcp_bench.plugins.gemini.session import (
    log_lines,
    model_names,
    result_text,
    text_of,
    thought_text,
    usage_of,
)
from mcp_bench.plugins.output import ODD, Turns

Lines = list[dict[str, Any]]


def configure(request: LaunchRequest) -> tuple[dict[str, str], LentLogin | None]:
    """Write its configuration, the server included; return its variables and the lent login."""
    env, lent = Gemini().environment(request)
    # It looks up a call under another server name than the configured one. There is only one server.
    Gemini().setup(request, env, rule('"*"', "allow", 300, 'mcpName = "*"\n'))
    return env, lent


def add_log(session: AcpSession, home: AgentFolder, server: McpServer) -> None:
    """Take the conversation, model and usage from its log, if there is one. `home` is `~/.gemini`."""
    lines = [line for line in log_lines(home, session.id) if isinstance(line.get("id"), str)]
    answers = list({line["id"]: line for line in lines if is_answer(line)}.values())
    if answers:
        session.turns = conversation(lines, model_names(server))
        session.usage = usage_of(None, answers)
        session.model = str(answers[-1].get("model"))


def is_answer(line: Mapping[str, Any]) -> bool:
    """Return whether a line is an answer of the model: those have token counts."""
    return line.get("type") == "gemini" and isinstance(line.get("tokens"), dict)


def conversation(lines: Lines, names: Mapping[str, str]) -> Turns:
    """Combine answers, calls and results. `names` maps the names that the model knows to the tools."""
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
                turns.reasoning("\n\n".join(filter(None, map(thought_text, line.get("thoughts") or ()))))
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
