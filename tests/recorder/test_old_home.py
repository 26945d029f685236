"""A home that an earlier version recorded works through the command line: see old_home/README.md."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support.archives import unpack
from tests.support.bench_commands import Bench

pytestmark = pytest.mark.system

OLD_HOME = Path(__file__).with_name("old_home")
FIGURES: dict[str, Any] = json.loads((OLD_HOME / "figures.json").read_text())
RUNS = list(FIGURES["verify"])
KILLED = RUNS[2]


@pytest.fixture
def bench(bench_home: Path) -> Bench:
    bench_home.mkdir()
    unpack(OLD_HOME / "home.tar.gz", bench_home)
    return Bench(bench_home)


def digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def among(expected: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of `found` that `expected` has: later versions may add some."""
    return {name: found.get(name) for name in expected}


def frames(path: Path, table: str = "frames") -> int:
    with closing(sqlite3.connect(path)) as db:
        (count,) = db.execute(f"SELECT count(*) FROM {table}").fetchone()
    return int(count)


def test_report_gives_the_same_figures(bench: Bench) -> None:
    """Version 0.1.0 pooled the oracle's two isolation levels in one row; each has its own now."""
    noop, *oracle = json.loads(bench.run("report", "--json").stdout)
    old_noop, old_oracle = FIGURES["report"]
    assert among(old_noop, noop) == old_noop
    assert (old_oracle["isolation"], [row["isolation"] for row in oracle]) == ("*", ["none", "uid"])
    for name, was in old_oracle.items():
        if isinstance(was, int):
            assert name == "tasks" or sum(row[name] for row in oracle) == was, name
        elif isinstance(was, float):
            assert [row[name] for row in oracle] == [was, was], name


def test_verify_finds_every_row_as_it_was(bench: Bench) -> None:
    found = json.loads(bench.run("verify", "--json", code=1).stdout)  # one run has no end
    for row in found:
        was = FIGURES["verify"][row["run"]]
        assert (row["verdict"], among(was["rows"], row["rows"])) == (was["verdict"], was["rows"])
    assert len(found) == len(RUNS)
    bench.run("verify", *RUNS[:2])


def test_show_gives_the_same_episodes(bench: Bench) -> None:
    for episode, was in FIGURES["episodes"].items():
        found = json.loads(bench.run("show", episode, "--json").stdout)
        grade = found["grade"] and among({"partial": 0, "strict": 0}, found["grade"])
        conversation = digest([found["messages"], found["tools"]])
        more = {"grade": grade, "calls": len(found["calls"]), "conversation": conversation}
        assert among(was, found) | more == was, episode


def test_export_writes_the_same_conversations(bench: Bench, tmp_path: Path) -> None:
    out = tmp_path / "train.jsonl"
    bench.run("export", "--out", out)
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert {row["id"]: digest(row["messages"]) for row in rows} == FIGURES["export"]


def test_merge_copies_all_runs(bench: Bench, tmp_path: Path) -> None:
    counts = json.loads(bench.run("merge", "--out", tmp_path / "all.db", "--json").stdout)["rows"]
    kept = [run["rows"] for run in FIGURES["verify"].values()]
    for table in ("runs", "episodes", "frames", "calls", "messages", "grades", "seals"):
        assert counts[table] == sum(rows[table] for rows in kept), table


def test_the_journal_is_committed_by_a_reader(bench: Bench) -> None:
    folder = bench.home / "runs" / KILLED
    assert sorted(path.name for path in folder.glob("journal-*")) == ["journal-0", "journal-1"]
    before = frames(folder / "recordings.db")
    bench.run("report", "--run", KILLED)
    assert (before, frames(folder / "recordings.db")) == (8, FIGURES["verify"][KILLED]["rows"]["frames"])
    assert list(folder.glob("journal-*")) == []


def test_a_killed_run_is_not_resumed_with_other_tasks(bench: Bench) -> None:
    """It was recorded with version 1 of saasworld, whose tasks no longer exist."""
    refused = bench.run("record", "--resume", KILLED, code=2)
    assert "was started with version 1 of benchmark 'saasworld', but version" in refused.stderr
    assert "Start a new run" in refused.stderr
    assert frames(bench.home / "runs" / KILLED / "grades.db", "grades") == 1
