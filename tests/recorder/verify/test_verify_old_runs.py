"""`mcp-bench verify` with runs of version 0.1.0, which had no ledger and the first format of tags."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from mcp_bench.recorder.cli.verify import verify
from mcp_bench.recorder.records import now_us
from mcp_bench.recorder.runs.run_folder import RunFolder
from mcp_bench.recorder.taint import Scan
from tests.support.archives import unpack
from tests.support.recorded import Episode, planned, play, record

pytestmark = pytest.mark.component

Invoke = Callable[..., Result]
OLD_HOME = Path(__file__).parents[1] / "old_home" / "home.tar.gz"


def verdicts(invoke: Invoke) -> dict[str, dict[str, Any]]:
    return {document["run"]: document for document in json.loads(invoke(verify, "--json").stdout)}


def new_run() -> RunFolder:
    return record([(planned("a"), Episode())])[0]


@pytest.fixture
def old(bench_home: Path) -> list[Path]:
    bench_home.mkdir()
    unpack(OLD_HOME, bench_home)
    return sorted((bench_home / "runs").iterdir())


def test_they_are_named(old: list[Path], invoke: Invoke) -> None:
    for _ in range(2):  # without a ledger, and with one
        found = verdicts(invoke)
        facts = {(found[run.name]["format"], found[run.name]["ledger"]) for run in old}
        assert facts == {(1, "older")}
        assert "format 1, older than the ledger" in invoke(verify, old[0].name).stdout
        new = new_run()
    assert (verdicts(invoke)[new.id]["format"], verdicts(invoke)[new.id]["ledger"]) == (2, "entered")


def test_they_are_missed_once_there_is_a_ledger(old: list[Path], invoke: Invoke) -> None:
    shutil.rmtree(old[1])
    new_run()
    shutil.rmtree(old[0])
    found = verdicts(invoke)
    assert (old[1].name in found, found[old[0].name]["verdict"]) == (False, "missing")


def test_they_keep_their_format(old: list[Path], invoke: Invoke, tmp_path: Path) -> None:
    earlier = shutil.copytree(old[0], tmp_path / "earlier")
    with RunFolder.reopen(old[0]) as again:
        episode = play(again, planned("b"), Episode())
        again.grades.put_scan(episode, Scan("clean"), now_us())
    found = verdicts(invoke)[old[0].name]
    assert (found["verdict"], found["format"], found["ledger"]) == ("verified", 1, "entered")
    shutil.rmtree(old[0])
    shutil.copytree(earlier, old[0])
    assert verdicts(invoke)[old[0].name]["ledger"] == "rolled back"


def test_a_forged_schema_is_found(old: list[Path], invoke: Invoke) -> None:
    with closing(sqlite3.connect(old[0] / "grades.db")) as db, db:
        db.execute("ALTER TABLE grades RENAME COLUMN partial TO kept")
        db.execute("ALTER TABLE grades ADD COLUMN partial AS (1.0)")
    found = verdicts(invoke)[old[0].name]
    assert (found["verdict"], found["findings"][0]["table"]) == ("changed", "schema")


def test_reading_changes_nothing(old: list[Path], invoke: Invoke, tmp_path: Path) -> None:
    from mcp_bench.recorder.cli.export import export
    from mcp_bench.recorder.cli.merge import merge
    from mcp_bench.recorder.cli.report import report
    from mcp_bench.recorder.cli.show import show

    # a journal that somebody put beside a sealed run is not taken in
    for name in ("journal-0", "journal-1"):
        shutil.copy(old[2] / name, old[0] / name)
    sealed = [path / name for path in old[:2] for name in ("recordings.db", "grades.db")]
    before = [path.read_bytes() for path in sealed]
    invoke(report, "--json")
    invoke(show, old[0].name)
    invoke(export, "--run", old[0].name, "--out", tmp_path / "rows.jsonl")
    invoke(merge, "--out", tmp_path / "all.db")
    assert verdicts(invoke)[old[0].name]["verdict"] == "verified"
    assert [path.read_bytes() for path in sealed] == before
