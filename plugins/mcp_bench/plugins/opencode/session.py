"""Read a session of opencode from stdout (`opencode run --format json`) and its database.

opencode reports each part of a message once it is complete. A step is one answer of the model with its calls.
The calls of a step run at the same time and are reported as they end. The ids of parts are in the model's
order.
"""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mcp_bench.plugins.agent_folder import AgentFolder
from mcp_bench.plugins.contracts import McpServer
from mcp_bench.plugins.output import ODD, Session, plus
from mcp_bench.plugins.text_files import json_lines, parse
from mcp_bench.recorder.trajectory import Message, Usage

NOT_ALLOWED = re.compile(r"rejected permission|specified a rule which prevents")
LOGGED = re.compile(
    r'^timestamp=(\S+) level=ERROR .*message="stream error".* error\.error="(.*)"$', re.MULTILINE
)
"""In its log: a request failed. It retries, ever more slowly, and reports no retry on stdout."""

SESSION = re.compile(r"ses_[0-9A-Za-z]{1,100}")

DATABASE = "opencode.db"
MAX_MESSAGES = 100_000
QUERY_SECONDS = 10.0
MAX_VALUE = 64 << 20
"""Bytes of one value, and of a row."""


@dataclass
class OpenCodeSession(Session):
    error: Mapping[str, Any] | None = None
    """The error on which it stopped, if any."""
    time: float = 0.0
    """Of the last event, in seconds since the epoch."""
    mid_step: bool = False
    """An answer of the model began without an end: calls may be missing."""
    denied: set[str] = field(default_factory=set)
    """Names of the server's tools that it was not allowed to call."""

    def answer(self, messages: Sequence[Message]) -> str | None:
        return None if self.mid_step else super().answer(messages)


def prefix(server: McpServer) -> str:
    """Return the prefix that it gives the names of the server's tools."""
    return f"{plain(server.name)}_"


def plain(name: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)


def model_names(server: McpServer) -> dict[str, str]:
    """Map the names that opencode gives the server's tools to their own."""
    return {f"{prefix(server)}{plain(tool)}": tool for tool in server.tools}


def read_session(stdout: Path, server: McpServer) -> OpenCodeSession:
    """Read a session as far as it exists and makes sense."""
    session = OpenCodeSession()
    for event in json_lines(stdout):
        with suppress(*ODD):
            add(session, event, model_names(server))
    return session


def session_id(events: Iterable[Mapping[str, Any]]) -> str | None:
    """Return the id of the session, if the events on stdout say it."""
    ids = [event.get("sessionID") for event in events]
    return ids[0] if ids and isinstance(ids[0], str) and SESSION.fullmatch(ids[0]) else None


def add(session: OpenCodeSession, event: Mapping[str, Any], names: Mapping[str, str]) -> None:
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
            session.usage = plus_step(session.usage, part)
            session.mid_step = False


def add_call(session: OpenCodeSession, part: Mapping[str, Any], names: Mapping[str, str]) -> None:
    name, state = names.get(part["tool"], part["tool"]), part["state"]
    session.turns.call(part["callID"], name, dict(state["input"]), rank=str(part.get("id", "")))
    if state["status"] == "completed":
        session.turns.result(part["callID"], str(state["output"]))
    elif state["status"] == "error":
        text = str(state["error"])
        session.turns.result(part["callID"], text, is_error=True)
        if part["tool"] in names and NOT_ALLOWED.search(text):
            session.denied.add(name)


def plus_step(total: Usage | None, step: Mapping[str, Any]) -> Usage:
    """Add a step. It counts cached input and reasoning separately; a cost of 0 means unknown."""
    tokens, cost = step["tokens"], float(step.get("cost") or 0)
    cached = int(tokens["cache"]["read"])
    return plus(
        total,
        tokens["input"] + cached + tokens["cache"]["write"],
        tokens["output"] + tokens["reasoning"],
        cached,
        cost or None,
    )


def failed_since(reported: float, log: str) -> str | None:
    """Return the last failed request in its log, unless it reported something later.

    Args:
        reported: time of its last report, in seconds since the epoch.
    """
    with suppress(*ODD):
        time, message = LOGGED.findall(log)[-1]
        if datetime.fromisoformat(time).timestamp() > reported:
            return f"ended while it tried again: {message}"
    return None


def stored_usage(folder: AgentFolder, session: str | None) -> Usage | None:
    """Return the usage of a session from its database in `folder`, for sessions that stdout does not report.

    Odd content is skipped.
    """
    usage: Usage | None = None
    for (data,) in stored(
        folder, "select data from message where session_id = ? order by time_created", session
    ):
        with suppress(*ODD):
            message = parse(data)
            if message["role"] == "assistant" and message["tokens"]["output"]:
                usage = plus_step(usage, message)
    return usage


def stored_time(folder: AgentFolder, session: str | None) -> float:
    """Return the time of the last part of a message, in seconds since the epoch; 0 if unknown."""
    with suppress(*ODD):
        ((milliseconds,),) = stored(
            folder, "select max(time_updated) from part where session_id = ?", session
        )
        return float(milliseconds) / 1000
    return 0.0


def _only_reads_tables(action: int, _: str | None, name: str | None, __: str | None, view: str | None) -> int:
    """Allow what our queries do themselves. https://www.sqlite.org/c3ref/set_authorizer.html"""
    allowed = (
        action == sqlite3.SQLITE_SELECT
        or (action == sqlite3.SQLITE_READ and view is None)
        or (action == sqlite3.SQLITE_FUNCTION and name == "max")
    )
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


def stored(folder: AgentFolder, query: str, session: str | None) -> list[tuple[Any, ...]]:
    """Return rows of its database, from a copy: SQLite would open, create and delete files by their paths.

    A rollback journal is not copied, since it can name a file to delete. The schema is the agent's, too, so
    nothing is computed by it: a view can be endless, and a function can return values of any length.
    """
    with TemporaryDirectory(prefix="mcp-bench-") as private:
        path = Path(private, DATABASE)
        try:
            path.write_bytes(folder.read(DATABASE))
            with suppress(FileNotFoundError):
                path.with_name(f"{DATABASE}-wal").write_bytes(folder.read(f"{DATABASE}-wal"))
        except OSError:
            return []
        end = time.monotonic() + QUERY_SECONDS
        with suppress(sqlite3.Error), closing(sqlite3.connect(path)) as database:
            database.execute("PRAGMA trusted_schema = OFF")
            database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE)
            database.set_authorizer(_only_reads_tables)
            database.set_progress_handler(lambda: time.monotonic() > end, 1_000)
            return database.execute(query, (session,)).fetchmany(MAX_MESSAGES)
    return []
