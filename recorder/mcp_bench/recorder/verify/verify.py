"""Verify that a run is unchanged since it was recorded: every row, their order, and that none is missing.

First the schemas of its databases are compared with what their migrations make, and their indexes with their
tables: otherwise a query could return something else than what the tags cover. Then the rows are checked, and
last the run is compared with the ledger of its home.

This needs the key that the run was recorded with, and changes nothing. It cannot detect a change by somebody
who has the key. What a ledger cannot show is in the docstring of `recorder.store.ledger`.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Collection, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from mcp_bench.recorder.errors import ChangedSchemaError, StorageError, database_errors
from mcp_bench.recorder.runs.left_behind import take_in_journal
from mcp_bench.recorder.runs.lock import is_being_written
from mcp_bench.recorder.runs.run_folder import GRADES, RECORDINGS
from mcp_bench.recorder.store import schema
from mcp_bench.recorder.store.database import applied_migrations, open_reader
from mcp_bench.recorder.store.keys import Key
from mcp_bench.recorder.store.ledger import NAME, Position, ledger_of, stored_position
from mcp_bench.recorder.store.schema_check import differences
from mcp_bench.recorder.store.signatures import Signer, columns_of_run, rows
from mcp_bench.recorder.verify.ledger_check import LedgerCheck, Standing
from mcp_bench.recorder.verify.row_check import Finding, Place, RowCheck

State = Literal["verified", "changed", "missing", "unknown", "open", "other key", "unreadable"]

_OPEN = (
    "every row is as it was stored, but no seal covers the end: its writer was killed, or somebody removed "
    "the seal. Rows may be missing there"
)
_RUNNING = "it is being recorded: the rows stored so far were checked"


@dataclass(slots=True)
class Verdict:
    """The result for one run.

    `open` means that all rows are as they were stored, but no seal covers the end. A run that is being
    recorded has no seal yet, and counts as verified. `missing` and `unknown` are from the comparison
    with the ledger; a run that was rolled back is `changed`.
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
    format: int | None = None
    """Of the tags; None if they were not checked."""
    ledger: Standing | None = None
    """How it stands in the ledger; None if they were not compared."""
    accepted: str = ""
    """When the operator accepted a copy of the run that was older than the ledger's last state."""
    named: Position | None = None
    """The entry of a ledger that the run names."""
    seal: str = ""
    """Tag of its last seal, in hexadecimal digits; empty if it is open or its rows are not as stored."""


def verify(path: Path, key: Key | None, ledger: LedgerCheck | None = None) -> Verdict:
    """Check the run in the folder `path`.

    Args:
        path: the folder.
        key: that it was recorded with; None if this home has no key.
        ledger: of its home; by default it is read for this run.
    """
    verdict = Verdict(path.name, path)
    running = is_being_written(path)
    try:
        if ledger is None:
            ledger = LedgerCheck(None if key is None else ledger_of(path, key))
        else:
            ledger.refresh()
        if key is not None:
            with contextlib.suppress(ChangedSchemaError):  # the findings will say so
                take_in_journal(path)
        facts = _verify(path, key, verdict)
        running = running or is_being_written(path)
        if facts is not None and ledger.is_used and not _compare(verdict, facts, ledger):
            return verify(path, key, ledger)
    except StorageError as error:
        verdict.state, verdict.detail = "unreadable", str(error)
    if verdict.state == "open" and running:
        verdict.state, verdict.detail = "verified", _RUNNING
    return verdict


def verify_ledger(ledger: LedgerCheck, home: Path, runs: Collection[str]) -> Iterator[Verdict]:
    """Yield a verdict for each missing run, and one for the ledger if something is wrong with it.

    Verify the runs first: what they name shows whether the ledger is whole.

    Args:
        ledger: of the home.
        home: the folder of the home.
        runs: only these can be missing; all of them if empty.
    """
    if not ledger.is_used:
        return
    for _ in range(2):  # a run may begin or be deleted meanwhile
        ledger.refresh()
        present = {path.parent.name for path in home.glob(f"runs/*/{RECORDINGS}")}
        missing = [one for one in ledger.missing(present) if not runs or one[0] in runs]
        if not missing:
            break
    for run, detail in missing:
        yield Verdict(run, home / "runs" / run, "missing", detail=detail)
    faults = [Finding(Place("ledger", None, one.where), one.change, one.detail) for one in ledger.faults()]
    if faults:
        yield Verdict(NAME, home / NAME, "changed", findings=faults)


@dataclass(frozen=True, slots=True)
class _Facts:
    """What the ledger is asked about: see `LedgerCheck.judge`."""

    named: Position | None
    state: str
    created_us: int
    is_empty: bool = False


def _compare(verdict: Verdict, facts: _Facts, ledger: LedgerCheck) -> bool:
    """Compare a run with the ledger, which was read before it. Return False if the run has changed meanwhile.

    Whether somebody holds its lock does not count: that could be anybody who can open the file.
    """
    before = ledger.history(verdict.run)
    verdict.named, verdict.seal = facts.named, facts.state
    if facts.is_empty:
        standing, detail = ledger.judge_empty(verdict.run)
    else:
        standing, detail = ledger.judge(verdict.run, facts.named, facts.state, facts.created_us)
    if standing in ("rolled back", "unknown"):
        ledger.refresh()
        if ledger.history(verdict.run) != before:
            return False
    verdict.ledger = standing
    if standing == "rolled back":
        verdict.state, verdict.detail = "changed", ""
        verdict.findings = [Finding(Place("ledger", None, verdict.run), "edited", detail)]
    elif standing == "unknown":
        verdict.state, verdict.detail = "unknown", detail
    elif standing == "accepted":
        verdict.accepted = detail
    return True


def _verify(path: Path, key: Key | None, verdict: Verdict) -> _Facts | None:
    """Check the files of a run. Return what the ledger is asked about if every row is as it was stored."""
    # grades first: a running writer seals an episode before it grades it
    with _snapshot(path / GRADES) as grades, _snapshot(path / RECORDINGS) as db:
        verdict.findings = [
            *_of_schema(grades, GRADES, schema.grades),
            *_of_schema(db, RECORDINGS, schema.recordings),
        ]
        if verdict.findings:  # a query may not return what was stored
            verdict.state = "changed"
            return None
        grade_tables = _applied(grades, schema.grades)
        tables = _applied(db, schema.recordings)
        if db is None or not tables or (run := _run(db, tables)) is None:
            if (
                db is not None
                and tables
                and db.execute("SELECT 1 FROM episodes UNION SELECT 1 FROM frames").fetchone()
            ):
                verdict.state = "changed"
                verdict.findings = [Finding(Place("runs", None, path.name), "removed")]
            else:
                verdict.state, verdict.detail = "open", "it is empty: its writer was killed at the very start"
                return _Facts(None, "", 0, is_empty=True)
            return None
        verdict.run, verdict.key = run.id, run.key
        signer = None if key is None else Signer(key, run.form, columns_of_run(tables, grade_tables or None))
        if signer is None or (verdict.key != signer.key.id and not _is_ours(db, signer)):
            verdict.state = "other key"
            verdict.detail = (
                f"it was recorded with the key {verdict.key}, which this home does not have: verify it where "
                "it was recorded, or with --key FILE"
            )
            return None
        check = RowCheck(db, grades if grade_tables else None, signer, run.id)
        verdict.findings = check.findings()
        verdict.rows, verdict.format = check.counts, signer.format
        if run.id != path.name:
            detail = f"its folder is called {path.name}: it is a copy, or was renamed"
            verdict.findings.append(Finding(Place("runs", None, run.id), "moved", detail))
        if verdict.findings:
            verdict.state = "changed"
            return None
        if not check.is_sealed:
            verdict.state, verdict.detail = "open", _OPEN
        return _Facts(run.named, check.state if check.is_sealed else "", run.created_us)


@contextmanager
def _snapshot(path: Path) -> Iterator[sqlite3.Connection | None]:
    """Yield a database as of one moment; None if it is missing."""
    if not path.exists():
        yield None
        return
    tables = schema.grades if path.name == GRADES else schema.recordings
    with closing(open_reader(path, tables, check=False)) as db, database_errors(path):
        # any value in a column must be readable, also text that is not UTF-8
        db.text_factory = lambda text: text.decode("utf-8", "surrogateescape")
        db.execute("BEGIN")
        yield db


def _of_schema(db: sqlite3.Connection | None, file: str, tables: schema.Schema) -> Iterable[Finding]:
    """Yield how the schema of a database differs from its migrations, or its indexes from its tables."""
    if db is None:
        return
    found = differences(db, tables)
    for different in found:
        yield Finding(Place("schema", None, f"{file}: {different.kind} {different.name}"), different.change)
    if not found:
        # an index with other contents than its table: https://www.sqlite.org/pragma.html#pragma_integrity_check
        for (text,) in db.execute("PRAGMA integrity_check(5)").fetchall():
            if text != "ok":
                yield Finding(Place("schema", None, f"{file}: contents"), "edited", str(text))


def _applied(db: sqlite3.Connection | None, tables: schema.Schema) -> list[str]:
    return [] if db is None else sorted(applied_migrations(db, tables))


@dataclass(frozen=True, slots=True)
class _Run:
    id: str
    key: str
    form: int
    named: Position | None
    created_us: int


def _run(db: sqlite3.Connection, applied: list[str]) -> _Run | None:
    signed = "format, ledger" if "ledger" in columns_of_run(applied)["runs"] else "NULL, NULL"
    row = db.execute(f"SELECT id, key, created_us, {signed} FROM runs ORDER BY created_us").fetchone()  # noqa: S608
    if row is None:
        return None
    run, key, created_us, form, ledger = row
    return _Run(str(run), str(key), 1 if form is None else form, stored_position(ledger), created_us)


def _is_ours(db: sqlite3.Connection, signer: Signer) -> bool:
    """Return whether a run that names another key has rows tagged with this one."""
    return any(
        row.tag == signer.tag(table, row.values)
        for table in ("runs", "episodes", "seals", "frames")
        for row in rows(db, signer.columns[table], table, f"rowid IN (SELECT rowid FROM {table} LIMIT 3)")  # noqa: S608
    )
