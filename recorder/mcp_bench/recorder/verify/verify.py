"""Verify that a run is unchanged since it was recorded: every row, their order, and that none is missing.

This needs the key that the run was recorded with, and changes nothing. It cannot detect a change by somebody
who has the key, or a whole run replaced by an earlier, closed state of itself.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from mcp_bench.recorder.errors import StorageError, database_errors
from mcp_bench.recorder.store import schema
from mcp_bench.recorder.store.database import applied_migrations, open_reader
from mcp_bench.recorder.store.keys import Key
from mcp_bench.recorder.store.run_folder import GRADES, RECORDINGS, is_being_written, take_in_journal
from mcp_bench.recorder.store.signatures import rows, tag
from mcp_bench.recorder.verify.row_check import Finding, Place, RowCheck

State = Literal["verified", "changed", "open", "other key", "unreadable"]

_OPEN = (
    "every row is as it was stored, but no seal covers the end: its writer was killed, or somebody removed "
    "the seal. Rows may be missing there"
)
_RUNNING = "it is being recorded: the rows stored so far were checked"


@dataclass(slots=True)
class Verdict:
    """The result for one run.

    `open` means that all rows are as they were stored, but no seal covers the end. A run that is being
    recorded has no seal yet, and counts as verified.
    """

    run: str
    path: Path
    state: State = "verified"
    key: str | None = None
    """Id of the key that the run names."""
    detail: str = ""
    rows: dict[str, int] = field(default_factory=dict)
    """Rows that were checked, by table."""
    findings: list[Finding] = field(default_factory=list)


def verify(path: Path, key: Key | None) -> Verdict:
    """Check the run in the folder `path` with `key`; None if this home has no key."""
    verdict = Verdict(path.name, path)
    running = is_being_written(path)
    try:
        if key is not None:
            take_in_journal(path)
        _verify(path, key, verdict)
    except StorageError as error:
        verdict.state, verdict.detail = "unreadable", str(error)
    if verdict.state == "open" and (running or is_being_written(path)):
        verdict.state, verdict.detail = "verified", _RUNNING
    return verdict


def _verify(path: Path, key: Key | None, verdict: Verdict) -> None:
    # grades first: a running writer seals an episode before it grades it
    with (
        _snapshot(path / GRADES, schema.grades) as grades,
        _snapshot(path / RECORDINGS, schema.recordings) as db,
    ):
        run = None if db is None else db.execute("SELECT id, key FROM runs").fetchone()
        if db is None or run is None:
            if db is not None and db.execute("SELECT 1 FROM episodes UNION SELECT 1 FROM frames").fetchone():
                verdict.state, verdict.findings = (
                    "changed",
                    [Finding(Place("runs", None, path.name), "removed")],
                )
            else:
                verdict.state, verdict.detail = "open", "it is empty: its writer was killed at the very start"
            return
        verdict.run, verdict.key = str(run[0]), str(run[1])
        if key is None or (verdict.key != key.id and not _is_ours(db, key)):
            verdict.state = "other key"
            verdict.detail = (
                f"it was recorded with the key {verdict.key}, which this home does not have: verify it where "
                "it was recorded, or with --key FILE"
            )
            return
        check = RowCheck(db, grades, key, verdict.run)
        verdict.findings = check.findings()
        verdict.rows = check.counts
        if verdict.findings:
            verdict.state = "changed"
        elif not check.is_sealed:
            verdict.state, verdict.detail = "open", _OPEN


@contextmanager
def _snapshot(path: Path, tables: schema.Schema) -> Iterator[sqlite3.Connection | None]:
    """Yield a database as of one moment; None if it is missing or empty."""
    if not path.exists():
        yield None
        return
    with closing(open_reader(path, tables)) as db, database_errors(path):
        # any value in a column must be readable, also text that is not UTF-8
        db.text_factory = lambda text: text.decode("utf-8", "surrogateescape")
        db.execute("BEGIN")
        yield db if applied_migrations(db, tables) else None


def _is_ours(db: sqlite3.Connection, key: Key) -> bool:
    """Return whether a run that names another key has rows tagged with this one."""
    return any(
        row.tag == tag(key, table, row.values)
        for table in ("runs", "episodes", "seals", "frames")
        for row in rows(db, table, f"rowid IN (SELECT rowid FROM {table} LIMIT 3)")  # noqa: S608
    )
