"""The two databases of a run as one read-only connection, also those of an earlier version."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Self, TypeVar

from mcp_bench.recorder.errors import StorageError, database_errors
from mcp_bench.recorder.runs.left_behind import take_in_left
from mcp_bench.recorder.runs.run_folder import GRADES, RECORDINGS
from mcp_bench.recorder.runs.stored_rows import RowCheck
from mcp_bench.recorder.store import episode_rows, schema
from mcp_bench.recorder.store.database import applied_migrations, open_reader, read_only_uri

_T = TypeVar("_T")


class RunDatabase:
    """The recordings of a run, with its grades attached as `sealed`. A context manager."""

    def __init__(self, path: Path) -> None:
        """Open the run in the folder `path`.

        Raises:
            StorageError: a database is damaged, or from a later version.
        """
        self.path = path
        self._file = path / RECORDINGS
        self._grade_tables: set[str] = set()
        self._frame_places: dict[str, tuple[int, int]] | None = None
        take_in_left(path)
        self._connection = open_reader(self._file, schema.recordings)
        try:
            # a writer that was killed at the start leaves a file without tables: an empty run
            applied = applied_migrations(self._connection, schema.recordings)
            self.empty = not applied
            self._task_facts = "m003_task_facts" in applied
            self._overview = "m004_overview" in applied
            self._attach(path / GRADES)
            self._add_what_is_newer()
        except BaseException:
            self._connection.close()
            raise

    def _attach(self, grades: Path) -> None:
        with database_errors(grades):
            if grades.exists():
                with closing(open_reader(grades, schema.grades)) as sealed:
                    self._grade_tables = applied_migrations(sealed, schema.grades)
                if self._grade_tables:
                    self._connection.execute("ATTACH ? AS sealed", [read_only_uri(grades)])
                    return
            self._connection.execute("ATTACH ':memory:' AS sealed")
            self._connection.execute(
                "CREATE TABLE sealed.grades"
                " (episode, partial, strict, assertions, metrics, grader_version, final_state)"
            )
            self._connection.execute("CREATE TABLE sealed.scans (episode, verdict, evidence)")
            self._connection.execute("CREATE TABLE sealed.canaries (place, value)")

    def _add_what_is_newer(self) -> None:
        """Add what queries name and a recording of an earlier version lacks, in this connection only."""
        forbidden = "id FROM episodes WHERE untrainable IS NOT NULL" if self._task_facts else "NULL WHERE 0"
        self._connection.execute(f"CREATE TEMP VIEW untrainable (episode) AS SELECT {forbidden}")
        for migration, tables in schema.NOT_YET.items():
            if migration not in self._grade_tables:
                self._connection.executescript(tables)

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def find_frames(self) -> None:
        """Find the frames of all episodes in one pass, so that `frame_bodies` of each need not search."""
        with self._reading():
            self._frame_places = {} if self.empty else episode_rows.frame_places(self._connection)

    def _query(self, sql: str, *parameters: object) -> Generator[sqlite3.Row]:
        if self.empty:
            return
        with self._reading():
            yield from self._connection.execute(sql, parameters)

    def _checked(self, check: RowCheck, sql: str, *parameters: object) -> Iterator[sqlite3.Row]:
        with self._reading(), closing(self._query(sql, *parameters)) as rows:
            yield from map(check, rows)

    def _json(self, default: _T, sql: str, *parameters: object) -> _T:
        """Return the value in the only row of a query; without one `default`, which is of the same kind."""
        with self._reading():
            for (text,) in self._query(sql, *parameters):
                found: _T = as_kind(json.loads(text), type(default))
                return found
        return default

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Raise StorageError where the database, or a value in one of its rows, is damaged."""
        try:
            with database_errors(self._file):
                yield
        except (ValueError, TypeError, RecursionError) as error:
            why = str(error).partition("\n")[0]
            raise StorageError(
                f"{self.path} has a damaged row ({why}): see `mcp-bench verify {self.path.name}`"
            ) from error


def as_kind(value: Any, kind: type) -> Any:
    """Return a stored value, which is an object, a list of objects, or anything.

    Raises:
        TypeError: it is something else.
    """
    if kind is dict and not isinstance(value, dict):
        raise TypeError("a value is no object")
    if kind is list and not (isinstance(value, list) and all(isinstance(one, dict) for one in value)):
        raise TypeError("a value is no list of objects")
    return value
