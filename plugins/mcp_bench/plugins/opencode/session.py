"""What opencode says of a session on stdout (`opencode run --format json`).

Each part of a message is told once it is complete; a step is one answer of the model and its calls.
Calls of one step run at the same time and are told as they end; the ids of parts are in the model's order.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from mcp_bench.plugins.context_overflow import overflowed
from mcp_bench.plugins.contracts import Fault, McpServer
from mcp_bench.plugins.json_lines import ODD, json_lines, parse
from mcp_bench.plugins.turns import Turns
from mcp_bench.recorder.trajectory import Usage

OWN_FAILURE = {"ContextOverflowError", "MessageAbortedError", "MessageOutputLengthError"}
"""Errors that come of what the model did, not of the endpoint."""
NOT_ALLOWED = re.compile(r"rejected permission|specified a rule which prevents")
LOGGED = re.compile(
    r'^timestamp=(\S+) level=ERROR .*message="stream error".* error\.error="(.*)"$', re.MULTILINE
)
"""In its log: a request failed. It tries again, ever more slowly, and tells of no such attempt on stdout."""

MAX_MESSAGES = 100_000


@dataclass
class Session:
    turns: Turns = field(default_factory=Turns)
    usage: Usage | None = None
    """Sum over all answers of the model."""
    model: str | None = None
    error: Mapping[str, Any] | None = None
    """What it stopped on, if it did."""
    time: float = 0.0
    """Of the last event, in seconds since the epoch."""
    mid_step: bool = False
    """An answer of the model had begun, and its end was not told: calls may be missing."""
    denied: set[str] = field(default_factory=set)
    """Names of the server's tools that it was not allowed to call."""


def prefix(server: McpServer) -> str:
    """Return what it puts before the names of the server's tools."""
    return f"{plain(server.name)}_"


def plain(name: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)


def model_names(server: McpServer) -> dict[str, str]:
    """Return the server's tools by the names that opencode gives them."""
    return {f"{prefix(server)}{plain(tool)}": tool for tool in server.tools}


def read_session(stdout: Path, server: McpServer) -> Session:
    """Read a session as far as it is there and makes sense."""
    session = Session()
    for event in json_lines(stdout):
        with suppress(*ODD):
            add(session, event, model_names(server))
    return session


def add(session: Session, event: Mapping[str, Any], names: Mapping[str, str]) -> None:
    session.time = event["timestamp"] / 1000
    if event["type"] == "error":
        session.error = event["error"]
        return
    part, turns = event["part"], session.turns
    match event["type"]:
        case "step_start":
            turns.end()
            session.mid_step = True
        case "reasoning":
            turns.reasoning(part["text"])
        case "text":
            turns.text(part["text"])
        case "tool_use":
            add_call(session, part, names)
        case "step_finish":
            session.usage = plus(session.usage or Usage(), part)
            session.mid_step = False


def add_call(session: Session, part: Mapping[str, Any], names: Mapping[str, str]) -> None:
    name, state = names.get(part["tool"], part["tool"]), part["state"]
    session.turns.call(part["callID"], name, dict(state["input"]), rank=str(part.get("id", "")))
    if state["status"] == "completed":
        session.turns.result(part["callID"], str(state["output"]))
    elif state["status"] == "error":
        text = str(state["error"])
        session.turns.result(part["callID"], text, is_error=True)
        if part["tool"] in names and NOT_ALLOWED.search(text):
            session.denied.add(name)


def plus(total: Usage, step: Mapping[str, Any]) -> Usage:
    """Add a step. It counts cached input and reasoning on their own; a cost of 0 is no known one."""
    tokens, cost = step["tokens"], float(step.get("cost") or 0)
    cached = int(tokens["cache"]["read"])
    return Usage(
        input_tokens=(total.input_tokens or 0) + tokens["input"] + cached + tokens["cache"]["write"],
        output_tokens=(total.output_tokens or 0) + tokens["output"] + tokens["reasoning"],
        cached_tokens=(total.cached_tokens or 0) + cached,
        model_calls=(total.model_calls or 0) + 1,
        cost_usd=(total.cost_usd or 0) + cost if cost or total.cost_usd else None,
    )


def fault(session: Session, log: str, server: McpServer) -> Fault | None:
    """Say whether something outside the agent failed. `log` is the end of its standard error."""
    if session.denied:
        return Fault(kind="approval_needed", detail=f"denied: {', '.join(sorted(session.denied))}")
    unavailable = re.search(
        rf'^.*message="server unavailable" key={re.escape(server.name)} .*$', log, re.MULTILINE
    )
    if unavailable and not any(m.tool_calls for m in session.turns.messages()):
        return Fault(kind="server_not_connected", detail=unavailable.group())
    if session.error is None:
        return retrying(session, log)
    with suppress(*ODD):
        name, data = str(session.error["name"]), session.error.get("data") or {}
        detail = f"{name}: {data.get('statusCode', '')} {data.get('message', '')}"
        if name in OWN_FAILURE or overflowed(detail):
            return None
        missing = name == "ProviderAuthError" or "API key is missing" in detail
        return Fault(kind="login_missing" if missing else "endpoint_error", detail=detail)
    return None


def retrying(session: Session, log: str) -> Fault | None:
    """Say whether it was ended while it tried a request again: nothing came on stdout since."""
    failed = failed_since(session.time, log)
    return None if failed is None or overflowed(failed) else Fault(kind="endpoint_error", detail=failed)


def failed_since(told: float, log: str) -> str | None:
    """Return what it logged of a failed request, where it has told nothing after that (in seconds)."""
    with suppress(*ODD):
        time, message = LOGGED.findall(log)[-1]
        if datetime.fromisoformat(time).timestamp() > told:
            return f"ended while it tried again: {message}"
    return None


def stored_usage(folder: Path, session: str | None) -> Usage | None:
    """Return the usage of a session from the program's database, for sessions that stdout does not tell of.

    `folder` is the one that its database is in. What is odd in it is passed over.
    """
    usage: Usage | None = None
    for (data,) in stored(
        folder, "select data from message where session_id = ? order by time_created", session
    ):
        with suppress(*ODD):
            message = parse(data)
            if message["role"] == "assistant" and message["tokens"]["output"]:
                usage = plus(usage or Usage(), message)
    return usage


def stored_time(folder: Path, session: str | None) -> float:
    """Return when the last part of a message came, in seconds since the epoch; 0 where that is unknown."""
    with suppress(*ODD):
        ((milliseconds,),) = stored(
            folder, "select max(time_updated) from part where session_id = ?", session
        )
        return float(milliseconds) / 1000
    return 0.0


def stored(folder: Path, query: str, session: str | None) -> list[tuple[Any, ...]]:
    """Return rows of the program's database. The file is the agent's: a link to one is not followed."""
    path = folder / "opencode.db"
    if path.is_symlink() or not path.is_file():
        return []
    with suppress(sqlite3.Error), closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as database:
        return database.execute(query, (session,)).fetchmany(MAX_MESSAGES)
    return []
