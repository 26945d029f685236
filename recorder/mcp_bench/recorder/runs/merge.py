"""Merge runs into one SQLite file: the rows of all of them, each with its run."""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from mcp_bench.recorder.errors import StorageError, database_errors
from mcp_bench.recorder.paths import is_there
from mcp_bench.recorder.runs.annotations import read_annotations
from mcp_bench.recorder.runs.find import check_no_copy
from mcp_bench.recorder.runs.left_behind import take_in_left
from mcp_bench.recorder.runs.run_folder import GRADES, RECORDINGS
from mcp_bench.recorder.store import schema
from mcp_bench.recorder.store.database import applied_migrations, open_reader, read_only_uri
from mcp_bench.recorder.store.schema_check import Column, columns
from mcp_bench.servers.errors import WrongUseError

_DATABASES = ((RECORDINGS, schema.recordings), (GRADES, schema.grades))
_RENAMED = {(GRADES, "seals"): "grade_seals"}
"""Tables whose name exists in both databases."""
_ANNOTATIONS = """
    CREATE TABLE annotations (
        run TEXT PRIMARY KEY,
        tags TEXT NOT NULL, -- JSON array
        note TEXT NOT NULL -- the operator's words; both are not signed
    )
"""
_SUMMARY = """
    CREATE VIEW episode_summary AS
    SELECT e.id, e.run, coalesce(e.agent, r.agent) AS agent, coalesce(e.model, r.model) AS model,
           r.benchmark, e.task, e.split, e.domain, e.seed, e.repeat, e.attempt, e.termination, e.invalid,
           coalesce(e.isolation, r.isolation) AS isolation, g.partial, g.strict,
           (SELECT count(*) FROM calls c WHERE c.run = e.run AND c.episode = e.id) AS calls
    FROM episodes e JOIN runs r ON r.id = e.run LEFT JOIN grades g ON g.run = e.run AND g.episode = e.id
"""


def merge_runs(runs: Sequence[Path], out: Path, progress: Callable[[str], object]) -> Counter[str]:
    """Copy the rows of run folders into the new file `out` (mode 0600) and count them by table.

    Every table has the columns that it has in a new run, after a first column `run`. Its key is `run` and its
    key there. The file appears only when it is complete.

    Args:
        runs: the run folders.
        out: the file to create.
        progress: called with the name of each run before it is copied.

    Raises:
        WrongUseError: `out` exists or cannot be seen, or its folder does not exist.
        StorageError: a run cannot be read or is a copy of another one, or `out` cannot be written; then no
            file is created.
    """
    if is_there(out):
        raise WrongUseError(f"{out} exists: name a new file, or remove it first")
    if not out.parent.is_dir():
        raise WrongUseError(f"there is no folder {out.parent}: create it, or name another")
    fresh = out.with_name(f".{out.name}.{secrets.token_hex(8)}")
    counts: Counter[str] = Counter()
    try:
        with _new_database(fresh) as db:
            db.execute(_ANNOTATIONS)
            for name, tables in _DATABASES:
                for table, every in columns(tables).items():
                    _create(db, _RENAMED.get((name, table), table), every)
            for run in runs:
                progress(run.name)
                counts += _add(db, run)
            db.execute("CREATE INDEX calls_episode ON calls (run, episode)")
            db.execute(_SUMMARY)
        _put(fresh, out)
    except FileExistsError:
        raise WrongUseError(f"{out} was created by another process meanwhile, and left as it is") from None
    finally:
        fresh.unlink(missing_ok=True)
    return counts


def _put(fresh: Path, out: Path) -> None:
    """Rename a file, and replace none.

    Raises:
        FileExistsError: there is a file with the new name.
        StorageError: it cannot be renamed.
    """
    try:
        os.link(fresh, out)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links: take the name first
        try:
            os.close(os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            fresh.replace(out)
        except FileExistsError:
            raise
        except OSError as error:
            raise StorageError(f"cannot write {out}: {error.strerror}") from error


@contextmanager
def _new_database(path: Path) -> Iterator[sqlite3.Connection]:
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}") from error
    with database_errors(path), closing(sqlite3.connect(path, uri=True, isolation_level=None)) as db:
        db.execute("PRAGMA synchronous = OFF")  # an incomplete file is deleted
        db.execute("PRAGMA journal_mode = OFF")
        yield db


def _add(db: sqlite3.Connection, run: Path) -> Counter[str]:
    """Copy the rows of one run. An empty run adds none."""
    counts: Counter[str] = Counter()
    take_in_left(run)
    with closing(open_reader(run / RECORDINGS, schema.recordings)) as recordings:
        row = (
            applied_migrations(recordings, schema.recordings)
            and recordings.execute("SELECT id FROM runs").fetchone()
        )
    if not row:
        return counts
    check_no_copy(run, row[0])
    for name, tables in _DATABASES:
        path = run / name
        if not path.exists():
            continue
        # refuses a database of a later version, and one whose schema was changed
        with closing(open_reader(path, tables)) as source:
            applied = applied_migrations(source, tables)
        with database_errors(path):
            db.execute("ATTACH ? AS source", [read_only_uri(path)])
            try:
                for table, own in columns(tables, applied).items():
                    target = _RENAMED.get((name, table), table)
                    counts[target] += _copy(db, table, target, [column.name for column in own], row[0])
            finally:
                db.execute("DETACH source")
    noted = read_annotations(run)
    if noted.tags or noted.note:
        db.execute("INSERT INTO annotations VALUES (?, ?, ?)", [row[0], json.dumps(noted.tags), noted.note])
        counts["annotations"] += 1
    return counts


def _create(db: sqlite3.Connection, table: str, every: Sequence[Column]) -> None:
    """Create a table with the columns of the latest version."""
    own = [] if any(column.name == "run" for column in every) else ["run"]
    key = ", ".join(f'"{name}"' for name in own + [column.name for column in every if column.in_key])
    kinds = ["run TEXT NOT NULL"] * bool(own) + [f'"{column.name}" {column.type}' for column in every]
    db.execute(f'CREATE TABLE main."{table}" ({", ".join(kinds)}, PRIMARY KEY ({key})) WITHOUT ROWID')


def _copy(db: sqlite3.Connection, table: str, target: str, names: Sequence[str], run: str) -> int:
    own = [] if "run" in names else ["run"]
    listed = ", ".join(f'"{name}"' for name in names)
    return db.execute(
        f'INSERT INTO main."{target}" ({", ".join([*own, listed])}) '  # noqa: S608 - names of our own schema
        f'SELECT {", ".join(["?"] * len(own) + [listed])} FROM source."{table}"',
        [run] * len(own),
    ).rowcount
