"""Forgeries made without the key that leave every row's tag genuine: the schema says what the values mean.

Each is made with plain SQLite, as by anybody who can write to the files. `verify` finds it, and `report`
leaves the run out.
"""

from __future__ import annotations

import fcntl
import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from mcp_bench.bridge.cli.record import record as record_command
from mcp_bench.recorder.cli.export import export
from mcp_bench.recorder.cli.merge import merge
from mcp_bench.recorder.cli.report import report
from mcp_bench.recorder.cli.scan import scan
from mcp_bench.recorder.cli.show import show
from mcp_bench.recorder.cli.verify import verify
from mcp_bench.recorder.errors import ChangedSchemaError
from mcp_bench.recorder.records import now_us
from mcp_bench.recorder.runs.parts import resume_run
from mcp_bench.recorder.runs.run_folder import RunFolder
from mcp_bench.recorder.taint import Scan
from tests.support.recorded import Episode, begin, planned, play, record, run_info

pytestmark = pytest.mark.component

Invoke = Callable[..., Result]


@pytest.fixture
def run(bench_home: Path) -> Path:
    """A closed run: one episode that failed, and one that is invalid."""
    folder, _ = record([])
    with type(folder).reopen(folder.path) as again:
        failed = Episode(calls=[("transfer", {"amount": 1}, "!no money")], partial=0.0)
        episode = play(again, planned("a"), failed)
        again.grades.put_scan(episode, Scan("tainted"), now_us())
        play(again, planned("b"), Episode(partial=None, invalid="endpoint"))
    return folder.path


def forge(path: Path, *statements: str) -> None:
    """Run statements in one database. Those after the word `reopen` see the schema as it is then."""
    groups: list[list[str]] = [[]]
    for statement in statements:
        groups.append([]) if statement == "reopen" else groups[-1].append(statement)
    for group in groups:
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            db.execute("PRAGMA writable_schema = ON")
            for statement in group:
                db.execute(statement)


def verdict(invoke: Invoke) -> tuple[int, str, list[dict[str, Any]]]:
    result = invoke(verify, "--json")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    ((found),) = json.loads(result.stdout)
    return result.exit_code, found["verdict"], found["findings"]


def as_generated(table: str, column: str, value: str) -> list[str]:
    """Hide a column behind a generated one of its name."""
    return [
        f"ALTER TABLE {table} RENAME COLUMN {column} TO old_{column}",
        f"ALTER TABLE {table} ADD COLUMN {column} AS ({value})",
    ]


def swapped(table: str, one: str, other: str) -> list[str]:
    return [
        f"ALTER TABLE {table} RENAME COLUMN {one} TO kept",
        f"ALTER TABLE {table} RENAME COLUMN {other} TO {one}",
        f"ALTER TABLE {table} RENAME COLUMN kept TO {other}",
    ]


def rewritten(name: str, old: str, new: str) -> list[str]:
    """Change the text of a table, view or index where SQLite stores it."""
    old, new = old.replace("'", "''"), new.replace("'", "''")
    return [f"UPDATE sqlite_master SET sql = replace(sql, '{old}', '{new}') WHERE name = '{name}'"]


VIEW = "SELECT 'x' AS id, 1.0 AS partial"
FORGED: dict[str, tuple[str, list[str]]] = {
    # columns that say something else
    "grades": ("grades", [*as_generated("grades", "partial", "1.0"), *as_generated("grades", "strict", "1")]),
    "taint": ("grades", as_generated("scans", "verdict", "'clean'")),
    "isolation": ("recordings", as_generated("episodes", "isolation", "'uid'")),
    "agent": ("recordings", as_generated("episodes", "agent", "'mine'")),
    "agent of the run": ("recordings", as_generated("runs", "agent", "'mine'")),
    "invalidity": ("recordings", as_generated("episodes", "invalid", "NULL")),
    "outcomes": ("recordings", as_generated("calls", "outcome", "'ok'")),
    "stored column": ("grades", [
        "ALTER TABLE grades RENAME COLUMN partial TO old",
        *rewritten("grades", "tag BLOB", "tag BLOB, partial REAL AS (1.0) VIRTUAL"),
    ]),
    "swapped names": ("recordings", swapped("episodes", "prompt", "domain")),
    "swapped keys": ("recordings", swapped("episodes", "seed", "repeat")),
    "swapped places": ("grades", rewritten(
        "grades", "partial REAL NOT NULL,\n        strict INTEGER NOT NULL,",
        "strict REAL NOT NULL,\n        partial INTEGER NOT NULL,")),
    "hidden column": ("recordings", ["ALTER TABLE runs ADD COLUMN verified AS (1) VIRTUAL"]),
    "column": ("recordings", ["ALTER TABLE episodes ADD COLUMN verified INTEGER"]),
    "column with a default": ("recordings", ["ALTER TABLE episodes ADD COLUMN verified INTEGER DEFAULT 1"]),
    "dropped column": ("recordings", ["DROP VIEW episode_summary", "ALTER TABLE episodes DROP COLUMN model"]),
    # rules of a column
    "no check": ("recordings", rewritten(
        "calls", "CHECK (outcome IN ('ok', 'tool_error', 'rpc_error', 'transport_error', 'cancelled'))", "")),
    "default": ("recordings", rewritten("episodes", "DEFAULT 0", "DEFAULT 1")),
    "collation": ("recordings", rewritten(
        "episodes", "id TEXT PRIMARY KEY", "id TEXT COLLATE NOCASE PRIMARY KEY")),
    "type": ("grades", rewritten("grades", "partial REAL", "partial TEXT")),
    "conflict clause": ("grades", rewritten("grades", "strict INTEGER NOT NULL",
                                            "strict INTEGER NOT NULL ON CONFLICT IGNORE")),
    "reference": ("recordings", rewritten("calls", "NOT NULL REFERENCES episodes(id)", "NOT NULL")),
    # other objects
    "trigger": ("recordings", [
        "CREATE TRIGGER t AFTER INSERT ON episodes BEGIN UPDATE episodes SET invalid = 'x'; END"]),
    "trigger on grades": ("grades", [
        "CREATE TRIGGER t BEFORE INSERT ON grades BEGIN DELETE FROM grades; END"]),
    "table": ("recordings", ["CREATE TABLE grades (episode, partial, strict)"]),
    "table named schema": ("recordings", ["CREATE TABLE schema (x)"]),
    "view": ("grades", [f"CREATE VIEW episodes AS {VIEW}"]),
    "view for a table": ("grades", [
        "ALTER TABLE grades RENAME TO kept",
        "CREATE VIEW grades AS SELECT episode, 1.0 AS partial, 1 AS strict, assertions, metrics,"
        " grader_version, final_state, graded_us, recording, tag FROM kept"]),
    "table for a view": ("recordings", [
        "DROP VIEW episode_summary", "CREATE TABLE episode_summary (id, agent, calls)"]),
    "text of a view": ("recordings", rewritten("call_results", "c.tool", "'transfer' AS tool")),
    "index": ("recordings", ["CREATE INDEX more ON calls (tool)"]),
    "partial index": ("recordings", [
        "DROP INDEX calls_episode", "CREATE INDEX calls_episode ON calls (episode) WHERE outcome = 'ok'"]),
    "dropped index": ("recordings", ["DROP INDEX calls_episode"]),
    "statistics": ("recordings", ["ANALYZE"]),
    "virtual table": ("recordings", ["CREATE VIRTUAL TABLE found USING fts5(body)"]),
    "without rowid": ("grades", [
        "CREATE TABLE kept (episode TEXT PRIMARY KEY, partial REAL NOT NULL, strict INTEGER NOT NULL,"
        " assertions TEXT NOT NULL, metrics TEXT NOT NULL, grader_version TEXT NOT NULL, final_state TEXT NOT"
        " NULL, graded_us INTEGER NOT NULL, recording BLOB, tag BLOB) WITHOUT ROWID",
        "INSERT INTO kept SELECT * FROM grades", "DROP TABLE grades", "ALTER TABLE kept RENAME TO grades"]),
    # migrations
    "no migrations": ("recordings", ["DELETE FROM _sqlite_migrations"]),
    "no migrations of grades": ("grades", ["DELETE FROM _sqlite_migrations"]),
    "no table of migrations": ("grades", ["DROP TABLE _sqlite_migrations"]),
    "a migration more": ("recordings", [
        "INSERT INTO _sqlite_migrations (migration_set, name) VALUES ('more', 'm001')"]),
    "view for migrations": ("recordings", [
        "DROP INDEX idx__sqlite_migrations_migration_set_name",
        "ALTER TABLE _sqlite_migrations RENAME TO kept",
        "CREATE VIEW _sqlite_migrations AS SELECT * FROM kept"]),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGED)
def test_a_changed_schema_is_found_and_not_reported(run: Path, invoke: Invoke, name: str) -> None:
    assert verdict(invoke)[:2] == (0, "verified")
    database, statements = FORGED[name]
    before = (run / f"{database}.db").read_bytes()
    forge(run / f"{database}.db", *statements)
    assert (run / f"{database}.db").read_bytes() != before
    code, state, findings = verdict(invoke)
    assert (code, state) == (1, "changed")
    assert findings
    named = {(finding["table"], finding["row"].split(":")[0]) for finding in findings}
    assert named == {("schema", f"{database}.db")}
    shown = invoke(report, "--json")
    assert shown.exit_code == 1
    assert (json.loads(shown.stdout), f"{database}.db" in shown.stderr) == ([], True)


def test_an_index_that_disagrees_with_its_table_is_found(bench_home: Path, invoke: Invoke) -> None:
    """A report finds grades by the index, a scan of the table does not use it."""
    slots = [planned("a"), planned("b")]
    folder, (good, bad) = record([(slots[0], Episode()), (slots[1], Episode(partial=0.0))])
    path = folder.path / "grades.db"

    def swap() -> list[str]:
        return [
            "UPDATE grades SET episode = 'x' WHERE rowid = 1",
            f"UPDATE grades SET episode = '{good}' WHERE rowid = 2",
            f"UPDATE grades SET episode = '{bad}' WHERE rowid = 1",
        ]

    with closing(sqlite3.connect(path)) as db:
        root, text = db.execute(
            "SELECT i.rootpage, t.sql FROM sqlite_master i, sqlite_master t"
            " WHERE i.name = 'sqlite_autoindex_grades_1' AND t.name = 'grades'"
        ).fetchone()
    forge(
        path,
        *swap(),
        "DELETE FROM sqlite_master WHERE name = 'sqlite_autoindex_grades_1'",
        *rewritten("grades", "episode TEXT PRIMARY KEY", "episode TEXT"),
        "reopen",
        "UPDATE grades SET episode = 'x' WHERE rowid = 1",
        f"UPDATE grades SET episode = '{bad}' WHERE rowid = 2",
        f"UPDATE grades SET episode = '{good}' WHERE rowid = 1",
        *rewritten("grades", "episode TEXT", "episode TEXT PRIMARY KEY"),
        "INSERT INTO sqlite_master (type, name, tbl_name, rootpage)"
        f" VALUES ('index', 'sqlite_autoindex_grades_1', 'grades', {root})",
    )
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT sql FROM sqlite_master WHERE name = 'grades'").fetchone() == (text,)
        by_index = f"SELECT partial FROM grades WHERE episode = '{bad}'"
        assert db.execute(by_index).fetchone() == (1.0,)
        assert db.execute(by_index.replace("grades", "grades NOT INDEXED")).fetchone() == (0.0,)
    code, state, findings = verdict(invoke)
    assert (code, state) == (1, "changed")
    assert (findings[0]["table"], findings[0]["row"]) == ("schema", "grades.db: contents")


def test_an_index_of_calls_that_disagrees_is_found(run: Path, invoke: Invoke) -> None:
    """`report` counts calls by this index alone."""
    path = run / "recordings.db"
    with closing(sqlite3.connect(path)) as db:
        row = db.execute("SELECT * FROM sqlite_master WHERE name = 'calls_episode'").fetchone()
    forge(path, "UPDATE calls SET episode = (SELECT max(id) FROM episodes)")
    forge(
        path,
        "DELETE FROM sqlite_master WHERE name = 'calls_episode'",
        "reopen",
        "UPDATE calls SET episode = (SELECT min(id) FROM episodes)",
        f"INSERT INTO sqlite_master VALUES ('index', 'calls_episode', 'calls', {row[3]}, '{row[4]}')",
    )
    code, state, findings = verdict(invoke)
    assert (code, state) == (1, "changed")
    assert (findings[0]["table"], findings[0]["row"]) == ("schema", "recordings.db: contents")


TRIGGER = "CREATE TRIGGER t AFTER INSERT ON grades BEGIN UPDATE grades SET partial = 1.0, strict = 1; END"


def test_nothing_is_added_to_a_changed_schema(run: Path, invoke: Invoke, tmp_path: Path) -> None:
    """A trigger would change rows before they are signed; an export would have what it likes."""
    forge(run / "grades.db", TRIGGER)
    before = (run / "grades.db").read_bytes()
    for command, arguments, why in (
        (record_command, ["--resume", run.name], "trigger t"),
        (scan, [run.name], "not verified"),
        (show, [run.name], "trigger t"),
        (export, ["--verified", "--out", tmp_path / "rows.jsonl"], "trigger t"),
        (merge, ["--out", tmp_path / "all.db"], "trigger t"),
    ):
        result = invoke(command, *arguments)
        assert result.exit_code == 1
        assert why in str(result.exception) + result.stderr
    with pytest.raises(ChangedSchemaError):
        resume_run(run.name)
    assert (run / "grades.db").read_bytes() == before
    assert not list(tmp_path.glob("*.jsonl"))


def test_rows_of_another_run_in_an_open_run_are_found(
    run: Path, invoke: Invoke, tmp_path: Path, bench_home: Path
) -> None:
    """Their tags are genuine, and an open run has no seal that would list what it has."""
    with RunFolder.create(run_info(planned("a"))) as folder:
        begin(folder, folder.info.plan[0])
        shutil.copytree(bench_home, tmp_path / "killed")
    shutil.rmtree(bench_home)
    shutil.move(tmp_path / "killed", bench_home)
    with closing(sqlite3.connect(folder.path / "recordings.db")) as db, db:
        db.execute("ATTACH ? AS other", [str(run / "recordings.db")])
        for table in ("runs", "episodes", "calls", "messages", "seals"):
            db.execute(f"INSERT INTO {table} SELECT * FROM other.{table}")
    code, found = invoke(verify, "--json").exit_code, json.loads(invoke(verify, "--json").stdout)
    (changed,) = (one for one in found if Path(one["path"]) == folder.path)
    assert (code, changed["verdict"]) == (1, "changed")
    assert {"runs", "episodes"} <= {finding["table"] for finding in changed["findings"]}


@pytest.mark.parametrize("mode", ["WAL", "PERSIST"])
def test_a_change_in_a_side_file_is_found(run: Path, invoke: Invoke, tmp_path: Path, mode: str) -> None:
    """The database file alone is as it was; SQLite reads the file beside it, too."""
    path = run / "grades.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA journal_mode = {mode}")
        db.execute("PRAGMA wal_autocheckpoint = 0")
        db.execute("UPDATE grades SET partial = 1.0")
        db.execute("PRAGMA cache_size = 0")
        db.commit()
        shutil.copytree(run, tmp_path / "left", ignore=shutil.ignore_patterns("*-shm"))
    shutil.rmtree(run)
    shutil.copytree(tmp_path / "left", run)
    assert list(run.glob("grades.db-*"))
    assert verdict(invoke)[:2] == (1, "changed")


def test_a_held_lock_does_not_hide_missing_seals(run: Path, invoke: Invoke) -> None:
    """A run that is being recorded has no seal; but a writer enters that in the ledger first."""
    for name in ("recordings.db", "grades.db"):
        forge(run / name, "DELETE FROM seals")
    forge(
        run / "recordings.db",
        "DELETE FROM messages",
        "DELETE FROM calls",
        "DELETE FROM frames",
        "DELETE FROM episodes",
    )
    forge(run / "grades.db", "DELETE FROM grades", "DELETE FROM scans")
    with (run / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        code, state, findings = verdict(invoke)
    assert (code, state, findings[0]["table"]) == (1, "changed", "ledger")
