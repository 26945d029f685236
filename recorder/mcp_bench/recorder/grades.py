"""The sealed side of a run: `grades.db`, read by the referee's user only, one row per episode.

It is written after the agent is gone, and nothing in it is ever copied into `recordings.db`.
"""

from __future__ import annotations

import threading
from pathlib import Path

from pydantic import JsonValue

from mcp_bench.recorder import schema, wire
from mcp_bench.recorder.database import close_writer, open_writer
from mcp_bench.recorder.errors import StorageError, database_errors


class SealedGrades:
    """The single writer of one `grades.db` (mode 0600). A grade row says that its episode is done,
    so it is synced to the disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
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
            wire.dumps(final_state), graded_us,
        )  # fmt: skip
        with self._lock, database_errors(self.path):
            stored = self._connection.execute(
                "INSERT INTO grades (episode, partial, strict, assertions, metrics, grader_version,"
                " final_state, graded_us) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                row,
            ).rowcount
        if not stored:
            raise StorageError(f"{self.path}: episode {episode} has a grade already")

    def has(self, episode: str) -> bool:
        with self._lock, database_errors(self.path):
            row = self._connection.execute("SELECT 1 FROM grades WHERE episode = ?", [episode]).fetchone()
        return row is not None

    def graded(self) -> set[str]:
        """Return the ids of the episodes that have a grade."""
        with self._lock, database_errors(self.path):
            return {episode for (episode,) in self._connection.execute("SELECT episode FROM grades")}
