"""`mcp-bench merge`: the rows of many runs in one file that any SQLite tool reads."""

import errno
import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from mcp_bench.recorder.cli.merge import merge
from mcp_bench.recorder.errors import StorageError
from mcp_bench.recorder.paths import runs_dir
from mcp_bench.servers.errors import UnknownNameError, WrongUseError
from tests.support.recorded import Episode, planned, record

pytestmark = pytest.mark.system

Invoke = Callable[..., Result]


def rows(path: Path, sql: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as db:
        return db.execute(sql).fetchall()


@pytest.fixture
def two_runs(bench_home: Path) -> list[Path]:
    texts = Episode(calls=[("transfer", {"to": "Zoë 東京"}, "naïve")], partial=0.5)
    first, _ = record([(planned("a"), Episode()), (planned("b"), texts)])
    second, _ = record([(planned("a"), Episode(partial=None, invalid="endpoint_error"))], agent="codex")
    return [first.path, second.path]


def test_every_row_is_copied_with_its_run(invoke: Invoke, two_runs: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "all.db"
    done = invoke(merge, "--out", out, "--json")
    assert done.exit_code == 0, done.output
    assert out.stat().st_mode & 0o777 == 0o600
    for path in two_runs:
        for name in ("recordings.db", "grades.db"):
            tables = rows(path / name, "SELECT name FROM sqlite_master WHERE type = 'table'")
            for (table,) in tables:
                if table.startswith(("_sqlite", "sqlite")):
                    continue
                target = "grade_seals" if (name, table) == ("grades.db", "seals") else table
                columns = ", ".join(f'"{c[1]}"' for c in rows(path / name, f'PRAGMA table_info("{table}")'))
                run = "id" if table == "runs" else "run"
                there = rows(out, f"SELECT {columns} FROM \"{target}\" WHERE {run} = '{path.name}'")
                assert sorted(map(repr, there)) == sorted(
                    map(repr, rows(path / name, f'SELECT {columns} FROM "{table}"'))
                )
    counts = json.loads(done.stdout)["rows"]
    assert (counts["runs"], counts["episodes"], counts["grades"]) == (2, 3, 2)
    summary = rows(
        out, "SELECT agent, task, partial, invalid, calls FROM episode_summary ORDER BY agent, task"
    )
    assert summary == [
        ("codex", "a", None, "endpoint_error", 1),
        ("oracle", "a", 1.0, None, 1),
        ("oracle", "b", 0.5, None, 1),
    ]


def test_only_the_named_runs_are_taken_each_once(
    invoke: Invoke, two_runs: list[Path], tmp_path: Path
) -> None:
    out = tmp_path / "one.db"
    name = two_runs[1].name
    assert invoke(merge, name, name, "--out", out).exit_code == 0
    assert rows(out, "SELECT id FROM runs") == [(name,)]


def test_what_is_in_the_way_is_left_as_it_is(invoke: Invoke, two_runs: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "mine"
    out.write_text("mine")
    assert isinstance(invoke(merge, "--out", out).exception, WrongUseError)
    assert out.read_text() == "mine"
    assert isinstance(invoke(merge, "--out", tmp_path / "no" / "x.db").exception, WrongUseError)
    unknown = invoke(merge, two_runs[0].name[:-1] + "_", "--out", tmp_path / "x.db").exception
    assert isinstance(unknown, UnknownNameError)
    assert two_runs[0].name in str(unknown)
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["mine"]


def test_a_file_system_without_hard_links_will_do(
    invoke: Invoke, two_runs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    out = tmp_path / "all.db"
    assert invoke(merge, "--out", out).exit_code == 0
    assert rows(out, "SELECT count(*) FROM runs") == [(2,)]
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["all.db"]


def test_a_damaged_run_is_named_and_nothing_half_done_stays(
    invoke: Invoke, two_runs: list[Path], tmp_path: Path
) -> None:
    (two_runs[1] / "recordings.db").write_bytes(b"not a database, " * 500)
    error = invoke(merge, "--out", tmp_path / "all.db").exception
    assert isinstance(error, StorageError)
    assert two_runs[1].name in str(error)
    assert not [path for path in tmp_path.iterdir() if "all.db" in path.name]


def test_a_copy_beside_its_run_is_refused_as_one(
    invoke: Invoke, two_runs: list[Path], tmp_path: Path
) -> None:
    shutil.copytree(two_runs[0], runs_dir() / "run_copy")
    error = invoke(merge, "--out", tmp_path / "all.db").exception
    assert isinstance(error, StorageError)
    assert f"run_copy is a copy of the run {two_runs[0].name} beside it" in str(error)


def test_a_run_that_never_began_adds_nothing(invoke: Invoke, two_runs: list[Path], tmp_path: Path) -> None:
    empty = runs_dir() / "run_0"
    empty.mkdir()
    (empty / "recordings.db").touch()
    assert invoke(merge, "--out", tmp_path / "all.db").exit_code == 0
    assert rows(tmp_path / "all.db", "SELECT count(*) FROM runs") == [(2,)]


def test_without_recordings_the_error_says_what_to_do(
    invoke: Invoke, bench_home: Path, tmp_path: Path
) -> None:
    error = invoke(merge, "--out", tmp_path / "all.db").exception
    assert isinstance(error, WrongUseError)
    assert "mcp-bench record" in str(error)
