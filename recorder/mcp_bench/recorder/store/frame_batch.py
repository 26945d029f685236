"""The rows of a frame log's next commit."""

from __future__ import annotations

import sqlite3

from mcp_bench.recorder.frames.body import LargeBody, fill_blob
from mcp_bench.recorder.store.call_tracker import STORE_CALL, CallRow
from mcp_bench.recorder.store.signatures import Signer, tag_rows

_FrameRow = tuple[int, str | None, int, str, int, str, str | None, str | None, bytes, bytes, str | bytes]
_INSERT_FRAME = (
    "INSERT INTO frames"
    " (id, episode, connection, direction, stored_us, kind, method, rpc_id, tag, link, body)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_NAME_AGENT = "UPDATE episodes SET agent = ?, agent_version = ? WHERE id = ?"


class Batch:
    """Calls are added when the commit starts. Falsy while empty."""

    def __init__(self, signer: Signer) -> None:
        self.frames: list[_FrameRow] = []
        self.large: list[tuple[_FrameRow, LargeBody]] = []
        """Frames whose body is in a file; the row has an empty one."""
        self.calls: dict[int, CallRow] = {}
        """By number."""
        self.agents: list[tuple[str, str, str]] = []
        """Agent, version, episode."""
        self.size = 0
        """Bytes of the bodies in `frames`."""
        self._signer = signer

    def __bool__(self) -> bool:
        return bool(self.frames or self.large or self.calls or self.agents)

    def write(self, db: sqlite3.Connection) -> None:
        """Store everything, within the caller's transaction."""
        db.executemany(_INSERT_FRAME, self.frames)
        for row, body in self.large:
            db.execute(_INSERT_FRAME, row)
            fill_blob(db, "frames", "body", row[0], body)
        db.executemany(STORE_CALL, self.calls.values())
        for agent, version, episode in self.agents:
            db.execute(_NAME_AGENT, (agent, version, episode))
            tag_rows(db, self._signer, "episodes", "id = ?", episode)

    def prepend_to(self, later: Batch) -> None:
        """Put these rows in front of a later batch, which retries them."""
        later.frames[:0] = self.frames
        later.large[:0] = self.large
        later.agents[:0] = self.agents
        later.size += self.size
        later.calls = self.calls | later.calls
