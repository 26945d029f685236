"""`mcp-bench verify --accept`: the operator accepts a run that was restored from a backup, and it stays visible."""

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

from mcp_bench.recorder.cli.report import report
from mcp_bench.recorder.cli.verify import verify
from mcp_bench.recorder.errors import RunLockedError, StorageError
from mcp_bench.recorder.runs.parts import resume_run
from mcp_bench.recorder.runs.run_folder import RunFolder
from mcp_bench.recorder.verify.resume import ChangedRunError, resume
from mcp_bench.servers.errors import WrongUseError
from tests.support.recorded import Episode, begin, planned, play, record, run_info

pytestmark = pytest.mark.component

Invoke = Callable[..., Result]
PLAN = [(planned("a"), Episode()), (planned("b"), Episode(partial=0.0))]


def verdict(invoke: Invoke, *arguments: str) -> dict[str, Any]:
    found = {one["run"]: one for one in json.loads(invoke(verify, *arguments, "--json").stdout)}
    (run,) = found
    one: dict[str, Any] = found[run]
    return one


def accept(invoke: Invoke, run: RunFolder) -> Result:
    return invoke(verify, "--accept", run.id, "--yes")


def put_back(copy: Path, run: RunFolder) -> None:
    shutil.rmtree(run.path)
    shutil.copytree(copy, run.path)


@pytest.fixture
def run(bench_home: Path) -> RunFolder:
    """A closed run with one of two episodes."""
    with RunFolder.create(run_info(planned("a"), planned("b"))) as folder:
        play(folder, planned("a"), Episode())
    return folder


@pytest.fixture
def backup(run: RunFolder, tmp_path: Path) -> Path:
    """A copy of the run. It was continued afterwards, and the copy put back."""
    copy = shutil.copytree(run.path, tmp_path / "backup")
    with resume_run(run.id) as again:
        play(again, planned("b"), Episode(partial=0.0))
    shutil.copytree(run.path, tmp_path / "later")
    put_back(copy, run)
    return copy


def test_a_restored_run_is_accepted_and_says_so(invoke: Invoke, run: RunFolder, backup: Path) -> None:
    assert verdict(invoke)["verdict"] == "changed"
    with pytest.raises(ChangedRunError):
        resume(run.id)
    done = accept(invoke, run)
    assert done.exit_code == 0, done.exception
    assert f"{run.id}  verified (" in done.stdout and "this copy was accepted on 20" in done.stdout
    found = verdict(invoke)
    assert (found["verdict"], found["ledger"], found["findings"]) == ("verified", "accepted", [])
    assert "accepted on 20" in found["accepted"]
    assert f"{run.id}: a later state may be lost: this copy was accepted on 20" in invoke(report).output
    (row,) = json.loads(invoke(report, "--json").stdout)
    assert list(row["accepted_runs"]) == [run.id]


def test_it_can_be_continued_and_still_says_so(invoke: Invoke, run: RunFolder, backup: Path) -> None:
    accept(invoke, run)
    with resume(run.id) as again:
        play(again, planned("b"), Episode())
    found = verdict(invoke)
    assert (found["verdict"], found["ledger"]) == ("verified", "accepted")
    assert "may be lost" in invoke(report).output


@pytest.mark.parametrize("continued", [False, True])
def test_other_copies_are_still_found(
    invoke: Invoke, run: RunFolder, backup: Path, tmp_path: Path, continued: bool
) -> None:
    """Accepting one copy accepts neither the later one that was lost nor the copy itself once it went on."""
    accept(invoke, run)
    others = [tmp_path / "later"]
    if continued:
        with resume(run.id) as again:
            play(again, planned("b"), Episode())
        others.append(backup)
    for other in others:
        put_back(other, run)
        found = verdict(invoke)
        assert (found["verdict"], found["ledger"]) == ("changed", "rolled back"), other.name


def test_changed_rows_are_never_accepted(invoke: Invoke, run: RunFolder, backup: Path) -> None:
    with closing(sqlite3.connect(run.path / "recordings.db")) as db, db:
        db.execute("UPDATE episodes SET prompt = 'easy'")
    error = accept(invoke, run).exception
    assert isinstance(error, StorageError) and "cannot be accepted" in str(error)
    assert verdict(invoke)["verdict"] == "changed"


def test_there_must_be_something_to_accept(invoke: Invoke, run: RunFolder) -> None:
    error = accept(invoke, run).exception
    assert isinstance(error, WrongUseError) and "nothing to accept" in str(error)
    assert b'"accepted"' not in (run.path.parents[1] / "ledger").read_bytes()


def test_it_needs_a_deliberate_yes(invoke: Invoke, run: RunFolder, backup: Path) -> None:
    refused = invoke(verify, "--accept", run.id)
    assert isinstance(refused.exception, WrongUseError) and "needs --yes" in str(refused.exception)
    assert "its folder is an earlier copy" in refused.stderr  # what would be accepted
    assert verdict(invoke)["verdict"] == "changed"
    assert invoke(verify, "--yes").exit_code == 2
    assert invoke(verify, run.id, "--accept", run.id, "--yes").exit_code == 2


def test_an_open_copy_is_accepted_as_it_is(invoke: Invoke, bench_home: Path, tmp_path: Path) -> None:
    """A backup made while the run was recorded: it has no seal, and can be resumed once it is accepted."""
    with RunFolder.create(run_info(planned("a"), planned("b"))) as folder:
        play(folder, planned("a"), Episode())
        first = shutil.copytree(folder.path, tmp_path / "first")
    with resume_run(folder.id) as again:
        begin(again, planned("b"))
        second = shutil.copytree(folder.path, tmp_path / "second")
    with resume_run(folder.id):
        pass
    put_back(second, folder)
    done = accept(invoke, folder)
    assert done.exit_code == 1, done.exception  # open: it is not verified as a whole
    assert (verdict(invoke)["verdict"], verdict(invoke)["ledger"]) == ("open", "accepted")
    put_back(first, folder)
    assert verdict(invoke)["ledger"] == "rolled back"
    put_back(second, folder)
    resume(folder.id).close()
    assert (verdict(invoke)["verdict"], verdict(invoke)["ledger"]) == ("verified", "accepted")


def test_a_deleted_run_that_is_restored(invoke: Invoke, run: RunFolder, tmp_path: Path) -> None:
    from mcp_bench.recorder.cli.delete import delete

    copy = shutil.copytree(run.path, tmp_path / "copy")
    invoke(delete, run.id, "--yes")
    shutil.copytree(copy, run.path)
    assert verdict(invoke)["ledger"] == "rolled back"
    assert accept(invoke, run).exit_code == 0
    shutil.rmtree(run.path)
    assert verdict(invoke)["verdict"] == "missing"


def test_a_run_from_another_home_with_this_key(
    invoke: Invoke, run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    (other / "runs").mkdir(parents=True)
    shutil.copy(run.path.parents[1] / "key", other / "key")
    monkeypatch.setenv("MCP_BENCH_HOME", str(other))
    record(PLAN)
    shutil.copytree(run.path, other / "runs" / run.id)
    assert verdict(invoke, run.id)["verdict"] == "unknown"
    assert accept(invoke, run).exit_code == 0
    assert invoke(verify).exit_code == 0
    assert verdict(invoke, run.id)["ledger"] == "accepted"


def test_a_run_that_is_recorded_is_not_accepted(invoke: Invoke, bench_home: Path) -> None:
    with RunFolder.create(run_info()) as folder:
        assert isinstance(accept(invoke, folder).exception, RunLockedError)
