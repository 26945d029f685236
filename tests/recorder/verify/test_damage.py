"""Damaged homes: every command that reads runs says what `verify` says, and advises what works."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import Result

from mcp_bench.recorder.cli.delete import delete
from mcp_bench.recorder.cli.export import export
from mcp_bench.recorder.cli.merge import merge
from mcp_bench.recorder.cli.report import report
from mcp_bench.recorder.cli.scan import scan
from mcp_bench.recorder.cli.show import show
from mcp_bench.recorder.cli.verify import verify
from mcp_bench.recorder.errors import StorageError
from mcp_bench.recorder.paths import runs_dir
from mcp_bench.recorder.runs.run_folder import RunFolder
from mcp_bench.recorder.store.keys import Key, own_key
from mcp_bench.recorder.verify.resume import ChangedRunError, resume
from mcp_bench.recorder.verify.verify import Verdict
from mcp_bench.recorder.verify.verify import verify as verify_run
from mcp_bench.servers.errors import BenchError, UnknownNameError
from mcp_bench.servers.home import home
from tests.support.half_written import leave_half_written
from tests.support.recorded import Episode, planned, play, record, run_info

pytestmark = pytest.mark.unit

Invoke = Callable[..., Result]


def said(result: Result) -> str:
    """Return what a user sees: the output, and the error that the root command prints."""
    assert result.exception is None or isinstance(result.exception, (BenchError, SystemExit)), (
        result.exception
    )
    return f"{result.output}{result.exception or ''}"


def started() -> RunFolder:
    """Return a run whose writer was killed after one of two episodes."""
    with RunFolder.create(run_info(planned("a"), planned("b"))) as folder:
        play(folder, planned("a"), Episode())
    return folder


def emptied(path: Path) -> None:
    (path / "recordings.db").write_bytes(b"")


def without_databases(path: Path) -> None:
    for name in ("recordings.db", "grades.db"):
        (path / name).unlink()


def cut(path: Path) -> None:
    data = (path / "recordings.db").read_bytes()
    (path / "recordings.db").write_bytes(data[: len(data) // 3])


def overwritten(path: Path) -> None:
    (path / "recordings.db").write_text("not a database")


def foreign(path: Path) -> None:
    (path / "recordings.db").unlink()
    with closing(sqlite3.connect(path / "recordings.db")) as db:
        db.execute("CREATE TABLE songs (title)")


def folder_instead(path: Path) -> None:
    (path / "recordings.db").unlink()
    (path / "recordings.db").mkdir()


DAMAGES = (emptied, without_databases, cut, overwritten, foreign, folder_instead)


@pytest.mark.parametrize("damage", DAMAGES)
def test_every_command_names_a_damaged_run(invoke: Invoke, tmp_path: Path, damage) -> None:
    good, _ = record([(planned("good"), Episode())], benchmark="elsewhere")
    bad = started()
    damage(bad.path)
    checked = invoke(verify)
    assert f"{good.id}  verified" in checked.output
    assert bad.id in checked.output and checked.exit_code == 1
    for command, *arguments in (
        (report,), (show,), (scan,), (scan, bad.id), (show, bad.id), (report, "--run", bad.id),
        (merge, "--out", tmp_path / "all.db"), (export, "--out", tmp_path / "rows.jsonl"),
    ):  # fmt: skip
        result = invoke(command, *arguments)
        text = said(result)
        assert result.exit_code != 0, (command.name, text)
        assert bad.id in text and "no recordings yet" not in text, (command.name, text)
        assert "resume" not in text, (command.name, text)
    with pytest.raises(StorageError, match=bad.id):
        resume(bad.id)
    # what was advised, works
    assert invoke(delete, bad.id, "--yes").exit_code == 0
    assert invoke(verify).exit_code == 0
    for command, *arguments in ((report,), (merge, "--out", tmp_path / "all.db")):
        assert invoke(command, *arguments).exit_code == 0


@pytest.mark.parametrize("damage", [emptied, without_databases])
def test_lost_rows_are_told_as_verify_tells_them(invoke: Invoke, damage) -> None:
    bad = started()
    damage(bad.path)
    printed = invoke(verify).output
    words = printed[printed.index("gone: the ledger has it as closed on") :].partition(" UTC")[0]
    for command in (report, show, scan):
        assert words in invoke(command).output
        assert f"mcp-bench delete {bad.id}" in invoke(command).output


def test_a_run_killed_at_the_very_start_is_no_damage(invoke: Invoke, tmp_path: Path) -> None:
    good, _ = record([(planned("good"), Episode())], benchmark="elsewhere")
    path = runs_dir() / "run_empty"
    (path / "logs").mkdir(parents=True)
    (path / "lock").write_text("")
    (path / "recordings.db").write_bytes(b"")
    for command, *arguments in (
        (report,), (show,), (scan,), (merge, "--out", tmp_path / "all.db"),
        (export, "--out", tmp_path / "rows.jsonl"),
    ):  # fmt: skip
        result = invoke(command, *arguments)
        assert result.exit_code == 0, said(result)
    text = invoke(report).output
    assert "run_empty: it is empty: its writer was killed at the very start" in text
    assert good.id in invoke(show).output
    assert invoke(delete, "run_empty", "--yes").exit_code == 0


def test_resume_is_advised_only_where_it_works(invoke: Invoke) -> None:
    run = started()
    assert f"1 of 2 planned episodes are not done yet (mcp-bench record --resume {run.id})" in said(
        invoke(report)
    )
    with resume(run.id):
        assert f"{run.id}: 1 of 2 planned episodes are not done yet (it is being recorded)" in said(
            invoke(report)
        )
    (run.path / "grades.db").write_bytes(b"")
    assert "resume" not in said(invoke(report))
    assert "not done yet (" in said(invoke(report)) and f"See `mcp-bench verify {run.id}`" in said(
        invoke(report)
    )
    with pytest.raises(StorageError):
        resume(run.id)


def test_only_the_newest_unfinished_runs_are_checked(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    """To verify a run takes many times as long as to report it."""
    runs = [started().path.name for _ in range(5)]
    checked: list[str] = []

    def check(path: Path, key: Key | None) -> Verdict:
        checked.append(path.name)
        return verify_run(path, key)

    monkeypatch.setattr("mcp_bench.recorder.verify.damage.verify", check)
    monkeypatch.setattr("mcp_bench.recorder.cli.report.SHOWN", 3)
    shown = invoke(report).stderr
    assert checked == runs[:1:-1]
    assert [run in shown for run in runs] == [False, False, True, True, True]
    assert "2 older runs are not complete, too: `mcp-bench show` lists them" in shown
    monkeypatch.setattr("mcp_bench.recorder.cli.report.CHECKED_BYTES", 0)
    assert invoke(report).stderr == shown and len(checked) == 3
    monkeypatch.setattr("mcp_bench.recorder.cli.report.SHOWN", 4)
    assert "1 older run is not complete, too" in invoke(report).stderr


@pytest.mark.parametrize("broken", [b"", b"garbage\n" * 99, b'0123456789abcdef ["frame", 9]\n123'])
def test_a_broken_journal_hides_no_run(invoke: Invoke, broken: bytes) -> None:
    run = started()
    (run.path / "journal-0").write_bytes(broken)
    assert "partial 1.00, solved" in said(invoke(show, run.id))
    assert invoke(report).exit_code == 0
    with resume(run.id) as folder:
        assert len(folder.pending()) == 1


def test_foreign_files_among_the_runs_are_no_runs(invoke: Invoke) -> None:
    run = started()
    (runs_dir() / "notes.txt").write_text("mine")
    (runs_dir() / "pictures").mkdir()
    (runs_dir() / "loop").symlink_to("loop")
    result = invoke(show)
    assert result.exit_code == 0 and run.id in result.output and "pictures" not in result.output
    assert invoke(report).exit_code == 0


@pytest.mark.parametrize("place", [home, runs_dir])
def test_a_home_that_is_a_file_is_an_error(invoke: Invoke, tmp_path: Path, place: Callable[[], Path]) -> None:
    place().parent.mkdir(parents=True, exist_ok=True)
    place().write_text("a file")
    for command, *arguments in (
        (report,), (show,), (scan,), (verify,), (show, "run_x"), (export, "--out", tmp_path / "rows.jsonl"),
        (merge, "--out", tmp_path / "all.db"), (delete, "run_x", "--yes"),
    ):  # fmt: skip
        result = invoke(command, *arguments)
        assert isinstance(result.exception, StorageError), (command.name, result.output, result.exception)
        assert "Not a directory" in said(result) and "MCP_BENCH_HOME" in said(result)
    with pytest.raises(StorageError, match="Not a directory"):
        resume("run_x")


ODD = (
    "x" * 300,
    "x" * 5000,
    "a\0b",
    "a\nb",
    "../../etc/passwd",
    "/",
    ".",
    "..",
    "~",
    "run_*",
    "ep_%",
    "\udcff",
)


@pytest.mark.parametrize("what", ODD)
@pytest.mark.parametrize("more", [(), ("--json",), ("--model-calls",)])
def test_show_takes_no_text_for_a_path(invoke: Invoke, what: str, more: tuple[str, ...]) -> None:
    record([(planned(), Episode())])
    error = invoke(show, what, *more).exception
    assert isinstance(error, UnknownNameError), error


@pytest.mark.parametrize("what", ["", " "])
def test_show_refuses_an_empty_name(invoke: Invoke, what: str) -> None:
    record([(planned(), Episode())])
    result = invoke(show, what)
    assert result.exit_code == 2 and "is empty" in result.output


def test_a_changed_run_that_only_a_writer_can_read_is_not_resumed(bench_home: Path) -> None:
    """Half a transaction beside it kept `verify` from reading the rows, and a writer would have sealed them."""
    run = started()
    with closing(sqlite3.connect(run.path / "recordings.db")) as db, db:
        db.execute("DELETE FROM messages")
    leave_half_written(run.path / "recordings.db")
    assert verify_run(run.path, own_key()).state == "unreadable"
    with pytest.raises(ChangedRunError, match="is not resumed, since it was changed"):
        resume(run.id)


@pytest.mark.parametrize("name", ["recordings.db", "grades.db"])
def test_a_run_whose_writer_was_killed_within_a_transaction_is_resumed(bench_home: Path, name: str) -> None:
    run = started()
    leave_half_written(run.path / name)
    with resume(run.id) as again:
        assert [slot.task for slot, _ in again.pending()] == ["b"]
    assert verify_run(run.path, own_key()).state == "verified"
