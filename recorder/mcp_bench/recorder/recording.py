"""The single writer of `recordings.db`.

What an agent sees is stored first: `store_frame` returns when the frame is committed, and a
commit outlives a killed process. Plain sqlite3, since this is the hot path.
"""

from __future__ import annotations

import contextlib
import json
import logging
import sqlite3
import threading
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mcp_bench.recorder import conversation, schema, wire
from mcp_bench.recorder.database import close_writer, open_writer
from mcp_bench.recorder.errors import CorruptDatabaseError, StorageError, database_error, database_errors
from mcp_bench.recorder.records import (
    REFEREE_DIED,
    EpisodeEnd,
    EpisodeStart,
    RecordedCall,
    RunInfo,
    now_us,
)
from mcp_bench.recorder.trajectory import Message

Direction = Literal["client", "server"]
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _OpenCall:
    row: int
    rpc_id: str
    executed: bool = False
    cancelled: bool = False


class Recording:
    """The recordings of one run. Safe to use from several threads; every method may raise
    StorageError, after which everything stored before is intact."""

    def __init__(self, path: Path) -> None:
        """Open or create the database at `path`."""
        self.path = path
        self.connection = open_writer(path, schema.recordings)
        self._lock = threading.RLock()
        self._open: dict[tuple[str, int], list[_OpenCall]] = defaultdict(list)
        self._executed: dict[str, int] = {}
        self._run: str | None = None

    def close(self) -> None:
        close_writer(self.connection)

    def add_run(self, info: RunInfo) -> None:
        row = info.model_dump()
        row["settings"] = wire.dumps(row["settings"])
        row["plan"] = wire.dumps(row["plan"])
        self._insert("runs", row)
        self._run = info.id

    def info(self) -> RunInfo:
        """Return the run that this database belongs to."""
        with database_errors(self.path):
            cursor = self.connection.execute("SELECT * FROM runs ORDER BY created_us LIMIT 1")
            found = cursor.fetchone()
        if found is None:
            raise CorruptDatabaseError(f"{self.path} holds no run: it was never set up. Remove its folder")
        self._run = found[0]
        row = dict(zip([column[0] for column in cursor.description], found, strict=True))
        return RunInfo(**{**row, "settings": json.loads(row["settings"]), "plan": json.loads(row["plan"])})

    def begin_episode(self, start: EpisodeStart) -> None:
        row = start.model_dump(exclude={"tools"})
        row["tools"] = wire.dumps([tool.model_dump() for tool in start.tools])
        row["run"] = self._run or self.info().id
        self._insert("episodes", row)
        self._executed[start.id] = 0

    def store_frame(self, episode: str, connection: int, direction: Direction, body: bytes) -> wire.Frame:
        """Store one raw line, terminator included, and the call that it opens or settles.

        `direction` is who sent it; `connection` tells the wires of one episode apart. The frame
        is committed when this returns.
        """
        frame = wire.parse(body)
        now = now_us()
        opened: list[_OpenCall] = []
        with self._lock:
            with self._transaction() as db:
                frame_id = db.execute(
                    "INSERT INTO frames (episode, connection, direction, stored_us, kind, method, rpc_id,"
                    " body) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                    (episode, connection, direction, now, frame.kind, frame.method, frame.rpc_id,
                     conversation.stored_body(body)),
                ).lastrowid  # fmt: skip
                for message in frame.items or (frame,):
                    if direction == "server":
                        self._settle(db, (episode, connection), message, frame_id, now)
                    elif message.is_call:
                        opened.append(_open_call(db, (episode, connection), message, frame_id, now))
                    elif message.cancels is not None:
                        for call in self._open.get((episode, connection), ()):
                            call.cancelled |= call.rpc_id == message.cancels
            if opened:  # only once committed: a row that was rolled back has no number
                self._open[episode, connection] += opened
        return frame

    def mark_executed(self, episode: str, connection: int, rpc_id: int | str | float | None) -> None:
        """Number the call that the server starts to run now."""
        with self._lock:
            waiting = [call for call in self._open.get((episode, connection), ()) if not call.executed]
            exact = wire.id_text(rpc_id)
            call = next((c for c in waiting if c.rpc_id == exact), None) or next(
                (c for c in waiting if _same_number(c.rpc_id, rpc_id)), None
            )
            if call is None:
                _log.warning("episode %s: no open call has the id %s", episode, exact)
                return
            number = self._executed.get(episode, 0) + 1
            with self._transaction() as db:
                db.execute("UPDATE calls SET execution = ? WHERE id = ?", (number, call.row))
            self._executed[episode] = number
            call.executed = True

    def close_connection(self, episode: str, connection: int) -> None:
        """Settle the calls that got no response: `cancelled` where the client gave up on them, else
        `transport_error`."""
        with self._transaction() as db:
            self._abandon(db, (episode, connection))
        self._open.pop((episode, connection), None)

    def recorded_calls(self, episode: str) -> list[RecordedCall]:
        """Return the calls of an episode in the order the server ran them."""
        with self._lock, database_errors(self.path):
            return conversation.recorded_calls(self.connection, episode)

    def end_episode(self, episode: str, end: EpisodeEnd, messages: Sequence[Message]) -> None:
        """Store how an episode ended and its conversation. Its connections count as closed."""
        row = end.model_dump()
        row["usage"] = end.usage.model_dump_json(exclude_none=True) if end.usage else None
        columns = ", ".join(f"{name} = :{name}" for name in row)
        keys = [key for key in self._open if key[0] == episode]
        with self._transaction() as db:
            for key in keys:
                self._abandon(db, key)
            changed = db.execute(
                f"UPDATE episodes SET {columns} WHERE id = :id AND ended_us IS NULL",  # noqa: S608
                {**row, "id": episode},
            ).rowcount
            if not changed:
                raise StorageError(f"{self.path}: there is no open episode {episode} to end")
            conversation.write_messages(db, episode, messages)
        for key in keys:
            del self._open[key]
        self._executed.pop(episode, None)

    def mark_died(self, graded: Collection[str]) -> list[str]:
        """Mark the valid episodes that have no grade as invalid, since their referee is gone.

        Returns their ids. They stay in the file; calls without a response get `transport_error`.
        """
        with self._transaction() as db:
            rows = db.execute("SELECT id FROM episodes WHERE invalid IS NULL ORDER BY id").fetchall()
            died = [episode for (episode,) in rows if episode not in graded]
            for episode in died:
                db.execute("UPDATE episodes SET invalid = ? WHERE id = ?", (REFEREE_DIED, episode))
                db.execute(
                    "UPDATE calls SET outcome = 'transport_error' WHERE episode = ? AND outcome IS NULL",
                    [episode],
                )
        return died

    def attempts(self) -> list[tuple[str, str, int, int, int]]:
        """Return `(episode, task, seed, repeat, attempt)` of every attempt, oldest first."""
        with self._lock, database_errors(self.path):
            rows = self.connection.execute("SELECT id, task, seed, repeat, attempt FROM episodes ORDER BY id")
            return rows.fetchall()

    def _settle(
        self, db: sqlite3.Connection, key: tuple[str, int], response: wire.Frame, frame: int | None, now: int
    ) -> None:
        calls = self._open.get(key, [])
        call = next((c for c in calls if c.rpc_id == response.rpc_id), None)
        if call is None or response.outcome is None:  # the answer to something else, or a request
            return
        given_up = call.cancelled and response.outcome == "rpc_error"
        db.execute(
            "UPDATE calls SET outcome = ?, ended_us = ?, response_frame = ? WHERE id = ?",
            ("cancelled" if given_up else response.outcome, now, frame, call.row),
        )
        calls.remove(call)

    def _abandon(self, db: sqlite3.Connection, key: tuple[str, int]) -> None:
        now = now_us()
        db.executemany(
            "UPDATE calls SET outcome = ?, ended_us = ? WHERE id = ?",
            [
                ("cancelled" if c.cancelled else "transport_error", now, c.row)
                for c in self._open.get(key, ())
            ],
        )

    def _insert(self, table: str, row: dict[str, object]) -> None:
        with self._transaction() as db:
            db.execute(
                f"INSERT INTO {table} ({', '.join(row)}) VALUES ({', '.join(':' + name for name in row)})",  # noqa: S608
                row,
            )

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                self.connection.execute("BEGIN IMMEDIATE")
                yield self.connection
                self.connection.execute("COMMIT")
            except BaseException as error:
                with contextlib.suppress(sqlite3.Error):  # SQLite has rolled back some by itself
                    self.connection.execute("ROLLBACK")
                if isinstance(error, sqlite3.Error):
                    raise database_error(self.path, error) from error
                raise


def _open_call(
    db: sqlite3.Connection, key: tuple[str, int], call: wire.Frame, frame: int | None, now: int
) -> _OpenCall:
    row = db.execute(
        "INSERT INTO calls (episode, connection, rpc_id, tool, arguments, started_us, request_frame)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (*key, call.rpc_id, call.tool, call.arguments, now, frame),
    ).lastrowid
    assert row is not None and call.rpc_id is not None  # noqa: S101 - an insert has a row, a request an id
    return _OpenCall(row, call.rpc_id)


def _same_number(spelled: str, value: object) -> bool:
    # a server may have read the id 1.0 as 1, or 1e0 as 1.0
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return float(spelled) == value
    except ValueError:
        return False
