"""Open one SQLite file: to write it (one writer, WAL, migrated) or to read it (never changes it)."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from mcp_bench.recorder.errors import NewerDatabaseError, StorageError, database_error

if TYPE_CHECKING:
    from mcp_bench.recorder.sqlite_tools import Migrations

_BUSY_SECONDS = 10.0


def open_writer(path: Path, migrations: Migrations, *, synchronous: str = "NORMAL") -> sqlite3.Connection:
    """Open or create `path` (mode 0600) in autocommit mode and bring its schema up to date.

    NORMAL keeps every commit when the process is killed, FULL also when the power goes.
    The connection is not bound to its thread: callers hold a lock of their own.

    Raises:
        StorageError: the file cannot be created, is damaged, or comes from a later version.
    """
    from mcp_bench.recorder.sqlite_tools import Database

    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}") from error
    connection = None
    try:
        connection = sqlite3.connect(
            path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        connection.execute("PRAGMA foreign_keys = ON")
        refuse_newer(connection, path, migrations)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        migrations.apply(Database(connection, execute_plugins=False))
    except (sqlite3.Error, StorageError) as error:
        if connection is not None:
            connection.close()
        raise (database_error(path, error) if isinstance(error, sqlite3.Error) else error) from error
    return connection


def close_writer(connection: sqlite3.Connection) -> None:
    """Close, and leave one plain file behind that can be read from anywhere, where no reader is in."""
    with contextlib.suppress(sqlite3.Error):
        connection.execute("PRAGMA journal_mode = DELETE")
    connection.close()


def open_reader(path: Path, migrations: Migrations) -> sqlite3.Connection:
    """Open `path` read-only, while its writer is at work, too.

    Raises:
        StorageError: it cannot be read, is damaged, or comes from a later version.
    """
    connection = None
    try:
        connection = sqlite3.connect(read_only_uri(path), uri=True, timeout=_BUSY_SECONDS)
        connection.row_factory = sqlite3.Row
        refuse_newer(connection, path, migrations)
    except (sqlite3.Error, StorageError) as error:
        if connection is not None:
            connection.close()
        raise (database_error(path, error) if isinstance(error, sqlite3.Error) else error) from error
    return connection


def read_only_uri(path: Path) -> str:
    return f"file:{quote(str(path))}?mode=ro"


def refuse_newer(connection: sqlite3.Connection, path: Path, migrations: Migrations) -> None:
    """Raise NewerDatabaseError where the file has migrations that this version does not know."""
    unknown = applied_migrations(connection, migrations) - {m.name for m in migrations._migrations}
    if unknown:
        raise NewerDatabaseError(
            f"{path} was written by a newer mcp-bench (its schema has {', '.join(sorted(unknown))}): "
            "upgrade mcp-bench to use it. The file was not changed"
        )


def applied_migrations(connection: sqlite3.Connection, migrations: Migrations) -> set[str]:
    table = migrations.migrations_table
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", [table]).fetchone():
        return set()
    rows = connection.execute(f"SELECT name FROM {table} WHERE migration_set = ?", [migrations.name])  # noqa: S608
    return {name for (name,) in rows}
