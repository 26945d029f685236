"""Rows that wait for the next commit."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from mcp_bench.recorder.frames.body import LargeBody
from mcp_bench.recorder.store.episode_rows import fill_blob
from mcp_bench.recorder.store.keys import Key
from mcp_bench.recorder.store.open_calls import Call
from mcp_bench.recorder.store.signatures import tag, tag_rows

_INSERT_FRAME = (
    "INSERT INTO frames"
    " (id, episode, connection, direction, stored_us, kind, method, rpc_id, tag, link, body)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_STORE_CALL = (
    "INSERT INTO calls (id, episode, connection, rpc_id, tool, arguments, execution, outcome, started_us,"
    " ended_us, request_frame, response_frame, tag) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (id) DO UPDATE SET execution = excluded.execution, outcome = excluded.outcome,"
    " ended_us = excluded.ended_us, response_frame = excluded.response_frame, tag = excluded.tag"
)
_NAME_AGENT = "UPDATE episodes SET agent = ?, agent_version = ? WHERE id = ?"

FrameRow = tuple[int, str | None, int, str, int, str, str | None, str | None, bytes, bytes, str | bytes]
"""Columns of `frames` in the order of the table."""


class Batch:
    """Falsy while there is nothing in it."""

    def __init__(self, key: Key) -> None:
        """`key` is what the rows are tagged with."""
        self.frames: list[FrameRow] = []
        self.large: list[Callable[[sqlite3.Connection], None]] = []
        """Each stores a frame that is not in memory."""
        self.calls: dict[int, Call] = {}
        """Those opened, started or settled, by number."""
        self.agents: list[tuple[str, str, str]] = []
        """Name, version, and the episode that they are of."""
        self.size = 0
        """Bytes of the frames."""
        self._key = key
        self._call_rows: dict[int, tuple[object, ...]] = {}

    def __bool__(self) -> bool:
        return bool(self.frames or self.large or self.calls or self.agents or self._call_rows)

    def seal(self) -> None:
        """Fix the calls as they are now: they may go on while this is written."""
        for call in self.calls.values():
            row = (
                call.number,
                call.episode,
                call.connection,
                call.rpc_id,
                call.tool,
                call.arguments,
                call.execution,
                call.outcome,
                call.started_us,
                call.ended_us,
                call.request_frame,
                call.response_frame,
            )
            self._call_rows[call.number] = (*row, tag(self._key, "calls", row))
        self.calls.clear()

    def write(self, db: sqlite3.Connection) -> None:
        """Store everything, within a transaction of the caller's."""
        db.executemany(_INSERT_FRAME, self.frames)
        for store in self.large:
            store(db)
        db.executemany(_STORE_CALL, self._call_rows.values())
        for name, version, episode in self.agents:
            db.execute(_NAME_AGENT, (name, version, episode))
            tag_rows(db, self._key, "episodes", "id = ?", episode)

    def put_before(self, later: Batch) -> None:
        """Join what comes later: this could not be written, and is tried again with it."""
        later.frames[:0] = self.frames
        later.large[:0] = self.large
        later.agents[:0] = self.agents
        later.size += self.size
        later._call_rows = self._call_rows | later._call_rows


def store_large(row: tuple[object, ...], body: LargeBody) -> Callable[[sqlite3.Connection], None]:
    """Return the step that stores a frame piece by piece, as a blob."""

    def store(db: sqlite3.Connection) -> None:
        number = db.execute(_INSERT_FRAME, (*row, sqlite3.Binary(b""))).lastrowid
        assert number is not None  # noqa: S101 - an insert has a row
        fill_blob(db, "frames", "body", number, body)

    return store
