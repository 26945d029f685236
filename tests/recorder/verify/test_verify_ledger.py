"""`mcp-bench verify` finds runs that are missing, put back to an earlier copy, or put into the home by hand."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from mcp_bench.bridge.cli.record import record as record_command
from mcp_bench.recorder.cli.verify import verify
from mcp_bench.recorder.errors import StorageError
from mcp_bench.recorder.records import now_us
from mcp_bench.recorder.runs.parts import resume_run
from mcp_bench.recorder.runs.run_folder import RunFolder, remove_run
from mcp_bench.recorder.taint import Scan
from mcp_bench.recorder.verify import home as verify_module
from mcp_bench.recorder.verify.verify import Verdict
from mcp_bench.recorder.verify.verify import verify as verify_run
from mcp_bench.servers.errors import UnknownNameError
from tests.support.recorded import Episode, begin, planned, play, record, request, run_info

pytestmark = pytest.mark.component

Invoke = Callable[..., Result]
FAILED = Episode(calls=[("transfer", {"amount": 1}, "!no money")], partial=0.0)


def verdicts(invoke: Invoke, *arguments: str) -> dict[str, dict[str, Any]]:
    """Verify the home; return the documents by run. The exit code must agree with them."""
    result = invoke(verify, *arguments, "--json")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    found = {document["run"]: document for document in json.loads(result.stdout)}
    assert result.exit_code == (0 if all(one["verdict"] == "verified" for one in found.values()) else 1)
    return found


def states(invoke: Invoke, *arguments: str) -> dict[str, str]:
    return {run: document["verdict"] for run, document in verdicts(invoke, *arguments).items()}


def failed_run(**info: Any) -> RunFolder:
    folder, _ = record([(planned("a"), FAILED)], **info)
    return folder


def go_on(folder: RunFolder, task: str = "b") -> None:
    """Resume a run, add an episode and close it."""
    with resume_run(folder.id) as again:
        play(again, planned(task), FAILED)


def ledger(home: Path) -> Path:
    return home / "ledger"


def lines(home: Path) -> list[bytes]:
    return ledger(home).read_bytes().splitlines(keepends=True)


def test_a_run_folder_that_is_gone_is_named(bench_home: Path, invoke: Invoke) -> None:
    kept, gone = failed_run(), failed_run()
    shutil.rmtree(gone.path)
    assert states(invoke) == {kept.id: "verified", gone.id: "missing"}
    assert states(invoke, gone.id) == {gone.id: "missing"}
    assert states(invoke, kept.id) == {kept.id: "verified"}
    assert f"{gone.id}  missing: its folder is gone" in invoke(verify).stdout


def test_recordings_that_are_gone_are_named(bench_home: Path, invoke: Invoke) -> None:
    run = failed_run()
    (run.path / "recordings.db").unlink()
    assert states(invoke) == {run.id: "missing"}


def test_an_emptied_run_is_not_verified(bench_home: Path, invoke: Invoke) -> None:
    run = failed_run()
    (run.path / "recordings.db").write_bytes(b"")
    assert states(invoke)[run.id] == "changed"


def test_an_earlier_closed_copy_is_found(bench_home: Path, invoke: Invoke, tmp_path: Path) -> None:
    run = failed_run()
    earlier = shutil.copytree(run.path, tmp_path / "earlier")
    go_on(run)
    assert states(invoke) == {run.id: "verified"}
    shutil.rmtree(run.path)
    shutil.copytree(earlier, run.path)
    found = verdicts(invoke)[run.id]
    assert (found["verdict"], found["ledger"]) == ("changed", "rolled back")
    assert [finding["table"] for finding in found["findings"]] == ["ledger"]
    resumed = invoke(record_command, "--resume", run.id)
    assert isinstance(resumed.exception, StorageError), resumed.exception
    assert "earlier copy" in str(resumed.exception)
    assert states(invoke) == {run.id: "changed"}  # resuming it did not hide that


def test_an_earlier_open_copy_is_found(bench_home: Path, invoke: Invoke, tmp_path: Path) -> None:
    run = failed_run()
    with resume_run(run.id) as again:
        earlier = shutil.copytree(run.path, tmp_path / "earlier")
        play(again, planned("b"), FAILED)
    shutil.rmtree(run.path)
    shutil.copytree(earlier, run.path)
    assert verdicts(invoke)[run.id]["ledger"] == "rolled back"


def test_a_verdict_that_was_put_back_is_found(bench_home: Path, invoke: Invoke, tmp_path: Path) -> None:
    """A scan changes grades.db of a closed run; the copy from before it has other verdicts."""
    run = failed_run()
    earlier = shutil.copytree(run.path, tmp_path / "earlier")
    with RunFolder.reopen(run.path) as again:
        (episode,) = again.grades.graded()
        again.grades.put_scan(episode, Scan("tainted"), now_us())
    assert states(invoke) == {run.id: "verified"}
    shutil.rmtree(run.path)
    shutil.copytree(earlier, run.path)
    assert verdicts(invoke)[run.id]["ledger"] == "rolled back"


def test_a_copy_under_another_name_is_found(bench_home: Path, invoke: Invoke) -> None:
    run = failed_run()
    shutil.copytree(run.path, run.path.with_name("run_copy"))
    found = [document["verdict"] for document in json.loads(invoke(verify, "--json").stdout)]
    assert sorted(found) == ["changed", "verified"]


def test_a_deleted_run_is_not_missing_until_it_is_back(
    bench_home: Path, invoke: Invoke, tmp_path: Path
) -> None:
    from mcp_bench.recorder.cli.delete import delete

    kept, gone = failed_run(), failed_run()
    copy = shutil.copytree(gone.path, tmp_path / "copy")
    assert json.loads(invoke(delete, gone.id, "--yes", "--json").stdout) == {"deleted": [gone.id]}
    assert sorted(path.name for path in bench_home.iterdir()) == ["key", "ledger", "runs"]
    assert states(invoke) == {kept.id: "verified"}
    shutil.copytree(copy, gone.path)
    assert verdicts(invoke)[gone.id]["ledger"] == "rolled back"


def test_a_run_that_is_deleted_meanwhile_is_left_out(
    bench_home: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [failed_run() for _ in range(3)]
    deletes: dict[str, Callable[[Path], None]] = {runs[0].id: remove_run, runs[1].id: shutil.rmtree}

    def verify_later(path: Path, *rest: Any) -> Verdict:
        deletes.pop(path.name, lambda _: None)(path)
        return verify_run(path, *rest)

    monkeypatch.setattr(verify_module, "verify", verify_later)
    assert states(invoke) == {runs[1].id: "missing", runs[2].id: "verified"}
    deletes[runs[2].id] = remove_run
    assert isinstance(invoke(verify, runs[2].id).exception, UnknownNameError)


def test_a_run_that_is_recorded_is_not_deleted(bench_home: Path, invoke: Invoke) -> None:
    from mcp_bench.recorder.cli.delete import delete

    with RunFolder.create(run_info()) as folder:
        assert "is being written" in str(invoke(delete, folder.id, "--yes").exception)
        assert invoke(delete, folder.id).exit_code == 1  # it asks
    assert states(invoke) == {folder.id: "verified"}


def test_an_imported_run_is_entered(bench_home: Path, invoke: Invoke, tmp_path: Path) -> None:
    from mcp_bench.recorder.cli.import_ import import_

    rows = tmp_path / "rows.jsonl"
    rows.write_text(json.dumps({"messages": [{"role": "user", "content": "Hi"}]}) + "\n")
    (run,) = json.loads(invoke(import_, rows, "--format", "openai", "--json").stdout)["runs"]
    assert verdicts(invoke)[run]["ledger"] == "entered"
    shutil.rmtree(bench_home / "runs" / run)
    assert states(invoke) == {run: "missing"}


def test_a_run_of_another_home_with_this_key_is_unknown(
    bench_home: Path, invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = failed_run()
    other = tmp_path / "other"
    other.mkdir()
    shutil.copy(bench_home / "key", other / "key")
    monkeypatch.setenv("MCP_BENCH_HOME", str(other))
    theirs = failed_run()
    assert states(invoke) == {theirs.id: "verified"}
    shutil.copytree(ours.path, other / "runs" / ours.id)
    assert states(invoke) == {ours.id: "unknown", theirs.id: "verified"}


def test_a_home_may_be_copied_and_moved(
    bench_home: Path, invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = failed_run()
    moved = bench_home.rename(tmp_path / "moved")
    monkeypatch.setenv("MCP_BENCH_HOME", str(moved))
    assert states(invoke) == {run.id: "verified"}
    go_on(run)
    assert states(invoke) == {run.id: "verified"}


class TestOpenRuns:
    """What a killed writer leaves is no forgery."""

    def test_a_killed_writer(self, bench_home: Path, invoke: Invoke, tmp_path: Path) -> None:
        with RunFolder.create(run_info(planned("a"))) as folder:
            episode = begin(folder, folder.info.plan[0])
            folder.recording.store_frame(episode, 1, "client", request(1, "transfer", {}))
            assert states(invoke) == {folder.id: "verified"}
            killed = shutil.copytree(bench_home, tmp_path / "killed")
        shutil.rmtree(bench_home)
        shutil.copytree(killed, bench_home)
        found = verdicts(invoke)[folder.id]
        assert (found["verdict"], found["ledger"], found["findings"]) == ("open", "entered", [])
        resume_run(folder.id).close()
        assert states(invoke) == {folder.id: "verified"}

    @pytest.mark.parametrize("lost", [1, 2])
    def test_killed_while_it_is_closed_or_opened(self, bench_home: Path, invoke: Invoke, lost: int) -> None:
        """The entries `closed`, and `opened` before it, are lost: the folder is newer than the ledger."""
        run = failed_run()
        go_on(run)
        ledger(bench_home).write_bytes(b"".join(lines(bench_home)[:-lost]))
        assert states(invoke) == {run.id: "verified"}
        go_on(run, "c")
        assert states(invoke) == {run.id: "verified"}

    def test_killed_before_its_seal_is_removed(
        self, bench_home: Path, invoke: Invoke, tmp_path: Path
    ) -> None:
        run = failed_run()
        earlier = shutil.copytree(run.path, tmp_path / "earlier")
        go_on(run)
        *_, opening, _, _ = lines(bench_home)
        shutil.rmtree(run.path)
        shutil.copytree(earlier, run.path)
        ledger(bench_home).write_bytes(b"".join(lines(bench_home)[:-2]))
        assert b'"opening"' in opening
        assert states(invoke) == {run.id: "verified"}

    def test_an_edited_row_is_not_signed_again(
        self, bench_home: Path, invoke: Invoke, tmp_path: Path
    ) -> None:
        """Resuming marks the episodes that died; that must not hide what was done to them meanwhile."""
        with RunFolder.create(run_info(planned("a"))) as folder:
            begin(folder, folder.info.plan[0])
            killed = shutil.copytree(bench_home, tmp_path / "killed")
        shutil.rmtree(bench_home)
        shutil.copytree(killed, bench_home)
        with closing(sqlite3.connect(folder.path / "recordings.db")) as db, db:
            db.execute("UPDATE episodes SET prompt = 'easy'")
        with pytest.raises(StorageError, match="changed"):
            resume_run(folder.id)
        assert states(invoke) == {folder.id: "changed"}

    def test_a_removed_episode_is_not_sealed_again(self, bench_home: Path, invoke: Invoke) -> None:
        """Resuming a run whose failed episode was removed would record it again, as a first attempt."""
        run = failed_run()
        for name, tables in (
            ("grades", ["grades"]),
            ("recordings", ["calls", "messages", "frames", "episodes"]),
        ):
            with closing(sqlite3.connect(run.path / f"{name}.db")) as db, db:
                for table in (*tables, "seals"):
                    db.execute(f"DELETE FROM {table}")
        assert "is not resumed" in str(invoke(record_command, "--resume", run.id).exception)
        assert states(invoke) == {run.id: "changed"}


class TestLedgerItself:
    @pytest.fixture
    def runs(self, bench_home: Path) -> tuple[RunFolder, RunFolder, RunFolder]:
        return failed_run(), failed_run(), failed_run()

    def test_only_the_owner_may_read_it(self, bench_home: Path, runs: tuple[RunFolder, ...]) -> None:
        assert ledger(bench_home).stat().st_mode & 0o777 == 0o600

    @pytest.mark.parametrize("first", [0, 1, 3, -1])
    def test_a_removed_line_is_found(
        self, bench_home: Path, invoke: Invoke, runs: tuple[RunFolder, ...], first: int
    ) -> None:
        kept = lines(bench_home)
        del kept[first]
        ledger(bench_home).write_bytes(b"".join(kept))
        if first == -1:  # the end: as if the writer was killed
            assert set(states(invoke).values()) == {"verified"}
        else:
            assert states(invoke)["ledger"] == "changed"

    @pytest.mark.parametrize("line", [0, 1, 4])
    def test_an_edited_line_is_found(
        self, bench_home: Path, invoke: Invoke, runs: tuple[RunFolder, ...], line: int
    ) -> None:
        changed = lines(bench_home)
        changed[line] = changed[line].replace(b"began", b"added").replace(b"closed", b"removed")
        changed[line] = changed[line].replace(b'"ledger"', b'"older"')
        ledger(bench_home).write_bytes(b"".join(changed))
        assert states(invoke)["ledger"] == "changed"

    def test_an_added_line_is_found(
        self, bench_home: Path, invoke: Invoke, runs: tuple[RunFolder, ...]
    ) -> None:
        forged = [7, 1, "removed", runs[0].id, "", "0" * 32, "0" * 32]
        with ledger(bench_home).open("a") as file:
            file.write(json.dumps(forged) + "\n")
        shutil.rmtree(runs[0].path)
        found = states(invoke)
        assert (found["ledger"], found[runs[0].id]) == ("changed", "missing")
        go_on(runs[1])  # writing goes on
        assert {found[run.id] for run in runs[1:]} == {"verified"}

    def test_a_line_moved_from_an_earlier_ledger_is_found(
        self, bench_home: Path, invoke: Invoke, runs: tuple[RunFolder, ...]
    ) -> None:
        """A deletion that was entered for one run does not excuse another, nor a later one."""
        moved = lines(bench_home)
        ledger(bench_home).write_bytes(b"".join([*moved, moved[2]]))
        assert states(invoke)["ledger"] == "changed"

    def test_a_cut_off_end_is_found_by_later_runs(
        self, bench_home: Path, invoke: Invoke, runs: tuple[RunFolder, ...]
    ) -> None:
        shutil.rmtree(runs[1].path)
        ledger(bench_home).write_bytes(b"".join(lines(bench_home)[:3]))
        found = states(invoke)
        assert found["ledger"] == "changed"
        failed_run()  # other runs take the places of the entries
        failed_run()
        assert states(invoke)["ledger"] == "changed"

    def test_a_removed_ledger_is_found(
        self, bench_home: Path, invoke: Invoke, runs: tuple[RunFolder, ...]
    ) -> None:
        shutil.rmtree(runs[1].path)
        ledger(bench_home).unlink()
        assert states(invoke)["ledger"] == "changed"
        failed_run()  # begins another
        assert states(invoke)["ledger"] == "changed"

    def test_another_key_is_no_excuse(
        self, bench_home: Path, invoke: Invoke, runs: tuple[RunFolder, ...]
    ) -> None:
        """A ledger that names another key is set aside, and then it is missing."""
        shutil.rmtree(runs[1].path)
        head = json.loads(lines(bench_home)[0])
        head[4] = "0123456789abcdef"
        ledger(bench_home).write_text(json.dumps(head) + "\n")
        assert states(invoke)["ledger"] == "changed"
        failed_run()
        assert (bench_home / "ledger.0123456789abcdef").exists()
        assert states(invoke)["ledger"] == "changed"

    def test_a_torn_entry_is_dropped(
        self, bench_home: Path, invoke: Invoke, runs: tuple[RunFolder, ...]
    ) -> None:
        whole = ledger(bench_home).read_bytes()
        ledger(bench_home).write_bytes(whole + b'[7,1795390000000000,"beg')
        assert set(states(invoke).values()) == {"verified"}
        later = failed_run()
        assert ledger(bench_home).read_bytes().startswith(whole)
        assert states(invoke) == {run.id: "verified" for run in (*runs, later)}

    def test_many_runs_at_once(self, bench_home: Path, invoke: Invoke) -> None:
        with ThreadPoolExecutor(8) as pool:
            runs = list(pool.map(lambda _: failed_run(), range(16)))
        assert states(invoke) == {run.id: "verified" for run in runs}
        entered = [json.loads(line) for line in lines(bench_home)]
        assert [entry[0] for entry in entered] == list(range(len(entered)))
        assert sum(entry[2] == "began" for entry in entered) == 16
