"""What worlds asked the models that play their user, judge or opponent: rows of `grades.db`.

The questions can contain the solution, so they lie on the sealed side. `regrade` answers from these rows.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mcp_bench.recorder.frames import jsonrpc
from mcp_bench.recorder.store.episode_rows import stored_json
from mcp_bench.recorder.trajectory import Usage

_COLUMNS = (
    "role, model, endpoint, seed, messages, tools, answer, error, answered_by, usage, started_us, ended_us"
)


@dataclass(frozen=True, slots=True)
class Asked:
    """One question to a model, with its answer or the reason why there is none."""

    role: str
    model: str
    """The name that the operator gave."""
    endpoint: str
    """Its address, without a login."""
    seed: int | None
    """What was sent as the seed of sampling."""
    messages: list[dict[str, Any]]
    """`ChatMessage` as JSON, like `answer`."""
    tools: list[dict[str, Any]]
    answer: dict[str, Any] | None
    error: str | None
    answered_by: str | None
    """The model's name and version as the endpoint reports them."""
    usage: Usage | None
    started_us: int
    ended_us: int


def add_asked(db: sqlite3.Connection, episode: str, asked: Asked) -> int:
    """Add a row to an open transaction; return its number."""
    row = (
        episode,
        asked.role,
        asked.model,
        asked.endpoint,
        asked.seed,
        jsonrpc.dumps(asked.messages),
        jsonrpc.dumps(asked.tools),
        asked.answer and jsonrpc.dumps(asked.answer),
        asked.error,
        asked.answered_by,
        asked.usage and asked.usage.model_dump_json(exclude_none=True),
        asked.started_us,
        asked.ended_us,
    )
    places = ", ".join("?" * len(row))
    added = db.execute(f"INSERT INTO asked (episode, {_COLUMNS}) VALUES ({places})", row)  # noqa: S608
    assert added.lastrowid is not None  # noqa: S101 - it was inserted
    return added.lastrowid


def read_asked(db: sqlite3.Connection, episode: str) -> Iterator[Asked]:
    """Yield what the world of an episode asked, in order."""
    rows = db.execute(f"SELECT {_COLUMNS} FROM asked WHERE episode = ? ORDER BY id", [episode])  # noqa: S608
    for role, model, endpoint, seed, messages, tools, answer, error, answered_by, usage, *times in rows:
        yield Asked(
            role,
            model,
            endpoint,
            seed,
            stored_json(messages),
            stored_json(tools),
            answer and stored_json(answer),
            error,
            answered_by,
            Usage.model_validate_json(usage) if usage else None,
            *times,
        )
