"""Open one SQLite file: to write it (one writer, WAL, migrated) or to read it (never changes it)."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import quote

import anyio

from mcp_bench.recorder.errors import (
    ChangedSchemaError,
    NewerDatabaseError,
    StorageError,
    database_error,
    database_errors,
)
from mcp_bench.recorder.run_settings import Durability
from mcp_bench.recorder.store.schema_check import differences, statements

if TYPE_CHECKING:
    from sqlite_utils import Database

    from mcp_bench.recorder.store.schema import Schema
    from mcp_bench.recorder.store.signatures import Signer

Step: TypeAlias = tuple[str, tuple[object, ...]] | Callable[[sqlite3.Connection], None]

_BUSY_SECONDS = 10.0
_JOURNAL = bytes.fromhex("d9d505f920a163d7")
"""Begins a rollback journal, and ends one that names another file (https://www.sqlite.org/fileformat2.html)."""


class Writer:
    """The connection that writes a database. Any thread may use it; a lock admits one at a time."""

    def __init__(self, path: Path, schema: Schema, sign: Callable[[sqlite3.Connection], Signer]) -> None:
        """Open or create the database at `path`. `sign` returns what its rows are tagged with.

        Raises:
            StorageError: it cannot be written, is damaged, or comes from a later version.
        """
        self.path = path
        self.connection = open_writer(path, schema)
        try:
            self.signer = sign(self.connection)
        except (sqlite3.Error, StorageError) as error:
            self.connection.close()
            raise (database_error(path, error) if isinstance(error, sqlite3.Error) else error) from error
        self.lock = threading.RLock()

    def set_durability(self, durability: Durability) -> None:
        """Choose what later commits survive."""
        with self.lock:
            self.connection.execute(f"PRAGMA synchronous = {'FULL' if durability == 'full' else 'NORMAL'}")

    def close(self) -> None:
        with self.lock:
            close_writer(self.connection)

    async def commit(self, *steps: Step, slow: bool = False) -> None:
        """Commit steps as one transaction; `slow` ones in a thread, so that the event loop goes on.

        Raises:
            StorageError: as for `transaction`.
        """
        if not slow:
            self._commit(*steps)
            return
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._commit, *steps)

    def _commit(self, *steps: Step) -> None:
        with self.transaction() as db:
            for step in steps:
                if isinstance(step, tuple):
                    db.execute(*step)
                else:
                    step(db)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Commit what the caller does inside as one transaction.

        Raises:
            StorageError: SQLite failed; the transaction is rolled back.
        """
        with self.lock, database_errors(self.path):
            try:
                self.connection.execute("BEGIN IMMEDIATE")
                yield self.connection
                self.connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):  # SQLite rolls back by itself after some errors
                    self.connection.execute("ROLLBACK")
                raise

    @contextlib.contextmanager
    def attached(self, part: Path) -> Iterator[sqlite3.Connection]:
        """Yield the database within a transaction, with another one as `part`.

        Raises:
            StorageError: as for `transaction`, or the other one cannot be opened.
        """
        with self.lock:
            with database_errors(part):
                self.connection.execute("ATTACH ? AS part", [read_only_uri(part)])
            try:
                with self.transaction() as db:
                    yield db
            finally:
                self.connection.execute("DETACH part")

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Yield the connection to read from.

        Raises:
            StorageError: SQLite failed.
        """
        with self.lock, database_errors(self.path):
            yield self.connection


def open_writer(path: Path, schema: Schema) -> sqlite3.Connection:
    """Open or create `path` (mode 0600) in autocommit mode and migrate it.

    Every commit survives a killed process. The connection is not bound to its thread: callers hold a lock.

    Raises:
        StorageError: the file cannot be created, is damaged, comes from a later version, or its schema was
            changed.
    """
    refuse_named_file(path)
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}") from error
    connection = None
    try:
        connection = sqlite3.connect(
            path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False, uri=True
        )  # uri: others are attached read-only
        connection.execute("PRAGMA foreign_keys = ON")
        refuse_newer(connection, path, schema)
        refuse_changed(connection, path, schema)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        _migrate(connection, schema)
    except (sqlite3.Error, StorageError) as error:
        if connection is not None:
            connection.close()
        raise (database_error(path, error) if isinstance(error, sqlite3.Error) else error) from error
    return connection


def refuse_named_file(path: Path) -> None:
    """Refuse a rollback journal that names a file: SQLite would delete that.

    One of ours never does. It can be beside a database from elsewhere.

    Raises:
        StorageError: it names one, or cannot be read.
    """
    journal = f"{path}-journal"
    try:
        file = os.open(journal, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with open(file, "rb") as opened:  # noqa: PTH123 - it is open already
            opened.seek(max(0, os.fstat(file).st_size - len(_JOURNAL)))
            end = opened.read(len(_JOURNAL))
    except FileNotFoundError:
        return
    except OSError as error:
        raise StorageError(f"cannot read {journal}: {error.strerror}") from error
    if end == _JOURNAL:
        raise StorageError(
            f"{journal} names another file, which SQLite would delete. mcp-bench writes no such journal: "
            "restore the folder from a copy"
        )


def finish_left(path: Path) -> None:
    """Roll back what a killed writer left half written: no reader can, so nobody could look at what is there.

    Raises:
        StorageError: the file cannot be written, or as for `refuse_named_file`.
    """
    if not Path(f"{path}-journal").exists():
        return
    with database_errors(path):
        refuse_named_file(path)
        with contextlib.closing(sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)) as db:
            db.execute("BEGIN IMMEDIATE")
            db.execute("ROLLBACK")


def close_writer(connection: sqlite3.Connection) -> None:
    """Close, and leave one plain file that can be read from anywhere, unless a reader has it open."""
    with contextlib.suppress(sqlite3.Error):
        connection.execute("PRAGMA journal_mode = DELETE")
    connection.close()


def open_reader(path: Path, schema: Schema, *, check: bool = True) -> sqlite3.Connection:
    """Open `path` read-only, also while its writer is running.

    Args:
        path: the file.
        schema: of the database.
        check: refuse a database whose schema is not that of its migrations.

    Raises:
        StorageError: it cannot be read, is damaged, comes from a later version, or its schema was changed.
    """
    connection = None
    try:
        connection = sqlite3.connect(read_only_uri(path), uri=True, timeout=_BUSY_SECONDS)
        connection.row_factory = sqlite3.Row
        refuse_newer(connection, path, schema)
        if check:
            refuse_changed(connection, path, schema)
    except (sqlite3.Error, StorageError) as error:
        if connection is not None:
            connection.close()
        raise (database_error(path, error) if isinstance(error, sqlite3.Error) else error) from error
    return connection


def read_only_uri(path: Path) -> str:
    return f"file:{quote(str(path))}?mode=ro"


def refuse_newer(connection: sqlite3.Connection, path: Path, schema: Schema) -> None:
    """Raise NewerDatabaseError if the file has migrations that this version does not know."""
    unknown = applied_migrations(connection, schema) - schema.migrations.keys()
    if unknown:
        raise NewerDatabaseError(
            f"{path} was written by a newer mcp-bench (its schema has {', '.join(sorted(unknown))}): "
            "upgrade mcp-bench to use it. The file was not changed"
        )


def refuse_changed(connection: sqlite3.Connection, path: Path, schema: Schema) -> None:
    """Raise ChangedSchemaError if the file has another schema than its migrations make."""
    if found := differences(connection, schema):
        raise ChangedSchemaError(
            f"{path} was changed: {', '.join(map(str, found[:3]))}{', ...' if found[3:] else ''}. A query "
            "could return anything, so nothing was read. See `mcp-bench verify`, and restore it from a copy"
        )


def applied_migrations(connection: sqlite3.Connection, schema: Schema) -> set[str]:
    """Return the names of the migrations that a database has; none for an empty file."""
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = '_sqlite_migrations'").fetchone():
        return set()
    rows = connection.execute("SELECT name FROM _sqlite_migrations WHERE migration_set = ?", [schema.name])
    return {name for (name,) in rows}


def _migrate(connection: sqlite3.Connection, schema: Schema) -> None:
    if not connection.execute("SELECT 1 FROM sqlite_master").fetchone():
        _create(connection, schema)
    elif applied_migrations(connection, schema) != schema.migrations.keys():
        # Imported late: sqlite-utils imports numpy and pandas if they are installed, which takes seconds.
        from sqlite_utils import Database, Migrations

        migrations = Migrations(schema.name)
        for name, statements in schema.migrations.items():
            migrations(name=name)(_applying(statements))
        migrations.apply(Database(connection, execute_plugins=False))


def _create(connection: sqlite3.Connection, schema: Schema) -> None:
    """Create all tables of a new database, and note its migrations as sqlite-utils does."""
    connection.execute("BEGIN IMMEDIATE")
    for statement in statements(schema):
        connection.execute(statement)
    connection.executemany(
        "INSERT INTO _sqlite_migrations (migration_set, name, applied_at) VALUES (?, ?, ?)",
        [(schema.name, name, str(datetime.now(UTC))) for name in schema.migrations],
    )
    connection.execute("COMMIT")


def _applying(statements: Sequence[str]) -> Callable[[Database], None]:
    def apply(db: Database) -> None:
        for statement in statements:
            db.execute(statement)

    return apply
