"""The sealed side of a run: `grades.db`, read by the referee's user only, one row per episode.

It is written after the agent is gone, and nothing in it is ever copied into `recordings.db`.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from pydantic import JsonValue

from mcp_bench.recorder import schema, wire
from mcp_bench.recorder.database import close_writer, open_writer
from mcp_bench.recorder.errors import StorageError, database_errors
from mcp_bench.recorder.evidence import put_seal, tag_rows, tags
from mcp_bench.recorder.keys import Key


class SealedGrades:
    """The single writer of one `grades.db` (mode 0600). A grade row says that its episode is done,
    so it is synced to the disk."""

    def __init__(self, path: Path, key: Key, sealed: Callable[[str], bytes | None]) -> None:
        """`sealed` gives the tag of an episode's seal, on which its grade is put."""
        self.path = path
        self._key = key
        self._sealed = sealed
        self._connection = open_writer(path, schema.grades, synchronous="FULL")
        self._lock = threading.Lock()

    def close(self) -> None:
        close_writer(self._connection)

    def put(
        self,
        episode: str,
        *,
        partial: float,
        strict: bool,
        assertions: JsonValue,
        metrics: JsonValue,
        grader_version: str,
        final_state: JsonValue,
        graded_us: int,
    ) -> None:
        """Store the grade of one episode.

        Raises:
            StorageError: the episode is graded already (the first grade stays), or the file
                cannot be written.
        """
        row = (
            episode, partial, strict, wire.dumps(assertions), wire.dumps(metrics), grader_version,
            wire.dumps(final_state), graded_us, self._sealed(episode),
        )  # fmt: skip
        with self._changing() as db:
            stored = db.execute(
                "INSERT INTO grades (episode, partial, strict, assertions, metrics, grader_version,"
                " final_state, graded_us, recording) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
                " ON CONFLICT DO NOTHING",
                row,
            ).rowcount
            if stored:
                tag_rows(db, self._key, "grades", "episode = ?", episode)
        if not stored:
            raise StorageError(f"{self.path}: episode {episode} has a grade already")

    def seal(self, run: str, recording: bytes | None) -> None:
        """Seal the grades of a run that is closed; `recording` is the tag of its recordings' seal."""
        with self._changing() as db:
            contents = {"recording": recording and recording.hex(), "grades": tags(db, "grades")}
            put_seal(db, self._key, run, contents)

    def unseal(self, run: str) -> None:
        """Take the seal away: more will come."""
        with self._changing() as db:
            db.execute("DELETE FROM seals WHERE subject = ?", [run])

    @contextlib.contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        with self._lock, database_errors(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):  # SQLite has rolled back some by itself
                    self._connection.execute("ROLLBACK")
                raise

    def has(self, episode: str) -> bool:
        with self._lock, database_errors(self.path):
            row = self._connection.execute("SELECT 1 FROM grades WHERE episode = ?", [episode]).fetchone()
        return row is not None

    def graded(self) -> set[str]:
        """Return the ids of the episodes that have a grade."""
        with self._lock, database_errors(self.path):
            return {episode for (episode,) in self._connection.execute("SELECT episode FROM grades")}
