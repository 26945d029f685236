"""The schema of a database: created at once, or migrated by sqlite-utils."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sqlite_utils import Database, Migrations

from mcp_bench.recorder.errors import CorruptDatabaseError, StorageError
from mcp_bench.recorder.store import schema
from mcp_bench.recorder.store.database import applied_migrations, close_writer, open_reader, open_writer
from mcp_bench.recorder.store.schema import Schema
from mcp_bench.recorder.store.schema_check import differences
from tests.support.half_written import leave_half_written

pytestmark = pytest.mark.unit

FIRST = Schema("a-set", {"m001": ("CREATE TABLE a (id INTEGER PRIMARY KEY)",)})
SECOND = Schema("a-set", {**FIRST.migrations, "m002": ("ALTER TABLE a ADD COLUMN b", "CREATE TABLE c (d)")})


def columns(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """Return name, type and primary key of the columns of each table."""
    with closing(sqlite3.connect(path)) as db:
        tables = db.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall()
        return {name: db.execute(f"PRAGMA table_info({name})").fetchall() for (name,) in tables}


@pytest.mark.parametrize("tables", [schema.recordings, schema.grades])
def test_a_new_database_is_as_sqlite_utils_makes_it(tmp_path: Path, tables: Schema) -> None:
    """Ours is made without sqlite-utils, whose import is slow; the two must not differ."""
    ours, theirs = tmp_path / "ours.db", tmp_path / "theirs.db"
    close_writer(open_writer(ours, tables))
    migrations = Migrations(tables.name)

    for name, statements in tables.migrations.items():

        def apply(db: Database, statements: tuple[str, ...] = statements) -> None:
            for statement in statements:
                db.execute(statement)

        migrations(name=name)(apply)

    with closing(sqlite3.connect(theirs)) as db:
        migrations.apply(Database(db))
    assert columns(ours) == columns(theirs)
    with closing(sqlite3.connect(theirs)) as db:
        assert differences(db, tables) == ()
    with closing(sqlite3.connect(ours)) as db:
        assert differences(db, tables) == ()
        assert migrations.pending(Database(db)) == []


def test_an_older_database_is_migrated(tmp_path: Path) -> None:
    path = tmp_path / "some.db"
    close_writer(open_writer(path, FIRST))
    for _ in range(2):  # and once only
        with closing(open_writer(path, SECOND)) as db:
            assert applied_migrations(db, SECOND) == {"m001", "m002"}
            db.execute("INSERT INTO a (b) VALUES (1)")
    assert list(columns(path)) == ["_sqlite_migrations", "a", "c"]
    with pytest.raises(StorageError, match="m002"):
        open_writer(path, FIRST)


def test_a_failed_migration_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "some.db"
    close_writer(open_writer(path, FIRST))
    before = columns(path)
    broken = Schema("a-set", {**FIRST.migrations, "m002": ("CREATE TABLE c (d)", "CREATE TABLE a (id)")})
    with pytest.raises(StorageError, match="already exists"):
        open_writer(path, broken)
    assert columns(path) == before


def test_a_failed_creation_leaves_an_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "some.db"
    with pytest.raises(StorageError, match="syntax error"):
        open_writer(path, Schema("a-set", {"m001": ("CREATE TABLE a (id)", "no SQL")}))
    with closing(open_reader(path, FIRST)) as db:
        assert applied_migrations(db, FIRST) == set()
    close_writer(open_writer(path, FIRST))
    assert "a" in columns(path)


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "some.db"
    path.write_bytes(b"no database" * 1000)
    with pytest.raises(CorruptDatabaseError):
        open_writer(path, FIRST)


def test_a_journal_that_names_another_file_deletes_nothing(tmp_path: Path) -> None:
    """It can lie beside a database from elsewhere: SQLite deletes the file when it has rolled back."""
    path, own = tmp_path / "some.db", tmp_path / "own"
    close_writer(open_writer(path, FIRST))
    own.write_text("mine")
    leave_half_written(path, naming=own)
    with pytest.raises(StorageError, match=r"some\.db-journal names another file"):
        open_writer(path, FIRST)
    assert own.read_text() == "mine"


def test_what_a_killed_writer_left_is_rolled_back(tmp_path: Path) -> None:
    path = tmp_path / "some.db"
    close_writer(open_writer(path, FIRST))
    leave_half_written(path)
    with pytest.raises(StorageError), closing(open_reader(path, FIRST)):
        pass
    close_writer(open_writer(path, FIRST))
    assert sorted(columns(path)) == ["_sqlite_migrations", "a"]
