"""Copies of runs in shared storage."""

from __future__ import annotations

import json
import resource
import shutil
from collections.abc import Callable
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from mcp_bench.recorder.cli.copies import pull as pull_command
from mcp_bench.recorder.cli.copies import push as push_command
from mcp_bench.recorder.cli.report import report
from mcp_bench.recorder.cli.verify import verify as verify_command
from mcp_bench.recorder.errors import RunLockedError, StorageError
from mcp_bench.recorder.runs.reader import RunReader
from mcp_bench.recorder.runs.run_folder import RunFolder, remove_run
from mcp_bench.recorder.storage import place as place_module
from mcp_bench.recorder.storage.copies import OtherCopyError, pull, push
from mcp_bench.recorder.storage.place import Manifest, Place
from mcp_bench.recorder.store.keys import key_path, own_key
from mcp_bench.recorder.verify.home import verify_home
from mcp_bench.recorder.verify.verify import verify
from mcp_bench.servers.errors import UnknownNameError, WrongUseError
from tests.support.recorded import Episode, planned, play, record, run_info

pytestmark = pytest.mark.component


def silent(_: int) -> None:
    pass


class SilentHandler(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


def contents(folder: Path) -> dict[str, bytes]:
    found = [path for path in folder.rglob("*") if path.is_file() and path.name != "lock"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def test_a_pulled_run_is_the_one_that_was_pushed(
    run: RunFolder, mirror: Callable[[], Path], tmp_path: Path
) -> None:
    key = key_path()
    place = Place(str(tmp_path / "shared"))
    done: list[int] = []
    manifest, sent = push(run.path, place, done.append)
    assert 0 < sent <= manifest.size == sum(done)  # equal pieces are sent once
    assert push(run.path, place, silent)[1] == 0
    home = mirror()
    assert place.runs() == [run.id]
    _, fetched = pull(run.id, place, silent)
    assert fetched == manifest.size
    assert pull(run.id, place, silent)[1] == 0
    copy = home / "runs" / run.id
    assert contents(copy) == contents(run.path)
    assert {path.stat().st_mode & 0o077 for path in (copy, *copy.rglob("*"))} == {0}
    with RunReader(copy) as reader:
        assert [one.partial for one in reader.episodes()] == [1.0, 0.5]
    (verdict,) = verify_home([run.id], key)
    assert (verdict.state, verdict.findings) == ("verified", [])
    assert not (home / "pulling").exists()


def test_an_interrupted_push_shows_no_run_and_goes_on(
    run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(str(tmp_path / "shared"))
    left = [3]
    write = Place._put

    def full(self: Place, path: str, data: bytes) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise StorageError("no room")
        write(self, path, data)

    with monkeypatch.context() as broken:
        broken.setattr(Place, "_put", full)
        with pytest.raises(StorageError, match="no room"):
            push(run.path, place, silent)
    assert place.runs() == []
    first = sum(place.sizes(run.id).values())
    manifest, sent = push(run.path, place, silent)
    assert (place.runs(), first > 0) == ([run.id], True)
    assert sent + first <= manifest.size
    assert sent + first == sum(place.sizes(run.id).values())


def test_an_interrupted_pull_goes_on(
    run: RunFolder, mirror: Callable[[], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(str(tmp_path / "shared"))
    manifest, _ = push(run.path, place, silent)
    home = mirror()
    read = Place.piece
    seen: list[str] = []

    def cut(self: Place, name: str, piece: Any) -> bytes:
        seen.append(piece.sha256)
        if len(seen) == 4:
            raise StorageError("the network is gone")
        return read(self, name, piece)

    with monkeypatch.context() as broken:
        broken.setattr(Place, "piece", cut)
        with pytest.raises(StorageError, match="gone"):
            pull(run.id, place, silent)
    assert not (home / "runs").exists()
    assert 0 < pull(run.id, place, silent)[1] < manifest.size
    assert contents(home / "runs" / run.id) == contents(run.path)


def test_one_process_at_a_time_pulls_a_run(
    run: RunFolder, mirror: Callable[[], Path], tmp_path: Path
) -> None:
    """Another could have a newer copy, and would write it into the same files."""
    place = Place(str(tmp_path / "shared"))
    push(run.path, place, silent)
    home = mirror()
    refused: list[str] = []

    def meanwhile(_: int) -> None:
        with pytest.raises(RunLockedError) as error:
            pull(run.id, place, silent)
        refused.append(str(error.value))

    pull(run.id, place, meanwhile)
    assert set(refused) == {f"{run.id} is being pulled by another process"}
    assert contents(home / "runs" / run.id) == contents(run.path)
    assert pull(run.id, place, silent)[1] == 0


def test_a_pull_that_cannot_write_says_where(
    run: RunFolder, mirror: Callable[[], Path], tmp_path: Path
) -> None:
    """The limit on the size of a file stands for a full disk. The error of a write names no file by itself."""
    place = Place(str(tmp_path / "shared"))
    push(run.path, place, silent)
    home = mirror()
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, usual[1]))
    try:
        with pytest.raises(StorageError, match=f"cannot write {home}/pulling/{run.id}: File too large"):
            pull(run.id, place, silent)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)


def test_a_resumed_run_sends_what_is_new(run: RunFolder, tmp_path: Path) -> None:
    place = Place(str(tmp_path / "shared"))
    before, _ = push(run.path, place, silent)
    with RunFolder.reopen(run.path) as again:
        with pytest.raises(RunLockedError, match="being written"):
            push(run.path, place, silent)
        play(again, planned("user_task_2"), Episode())
    after, sent = push(run.path, place, silent)
    assert after.state != before.state
    assert 0 < sent <= after.size


def test_a_manifest_is_replaced_as_a_whole(run: RunFolder, tmp_path: Path) -> None:
    place = Place(str(tmp_path / "shared"))
    before, _ = push(run.path, place, silent)
    with (tmp_path / "shared" / run.id / "manifest.json").open() as reader:
        with RunFolder.reopen(run.path) as again:
            play(again, planned("user_task_2"), Episode())
        assert push(run.path, place, silent)[0] != before
        assert Manifest.model_validate_json(reader.read()) == before


def test_another_copy_is_never_replaced(run: RunFolder, tmp_path: Path) -> None:
    place = Place(str(tmp_path / "shared"))
    push(run.path, place, silent)
    with RunFolder.reopen(run.path):
        pass
    before = contents(run.path)
    with pytest.raises(OtherCopyError, match=f"{run.id} is left as it is, since this home has another copy"):
        pull(run.id, place, silent)
    assert contents(run.path) == before


def test_a_copy_that_went_on_elsewhere_is_not_replaced(
    run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy of the whole home has the same key, and each of the two can go on with the run."""
    place, home = Place(str(tmp_path / "shared")), run.path.parent.parent
    push(run.path, place, silent)
    shutil.copytree(home, tmp_path / "elsewhere")
    other = tmp_path / "elsewhere" / "runs" / run.id
    monkeypatch.setenv("MCP_BENCH_HOME", str(tmp_path / "elsewhere"))
    with RunFolder.reopen(other) as again:
        play(again, planned("user_task_2"), Episode())
    there, _ = push(other, place, silent)
    monkeypatch.setenv("MCP_BENCH_HOME", str(home))
    with pytest.raises(OtherCopyError, match="has a copy that this home does not know"):
        push(run.path, place, silent)
    assert place.manifest(run.id) == there
    assert push(run.path, place, silent, force=True)[0].state != there.state


def test_a_restored_backup_does_not_replace_a_later_copy(run: RunFolder, tmp_path: Path) -> None:
    """The copy may be all that is left of what was recorded after the backup."""
    place = Place(str(tmp_path / "shared"))
    push(run.path, place, silent)
    shutil.copytree(run.path, tmp_path / "backup")
    with RunFolder.reopen(run.path) as again:
        play(again, planned("user_task_2"), Episode())
    later, _ = push(run.path, place, silent)
    shutil.rmtree(run.path)
    shutil.copytree(tmp_path / "backup", run.path)
    with pytest.raises(OtherCopyError, match="has a later copy, perhaps because this one was restored"):
        push(run.path, place, silent)
    assert place.manifest(run.id) == later
    assert push(run.path, place, silent, force=True)[0].state != later.state


def test_runs_at_a_url_of_http_are_found(run: RunFolder, tmp_path: Path) -> None:
    push(run.path, Place(str(tmp_path / "shared")), silent)
    handler = partial(SilentHandler, directory=str(tmp_path / "shared"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            assert Place(f"http://127.0.0.1:{server.server_port}").runs() == [run.id]
        finally:
            server.shutdown()
            thread.join()


def test_pull_goes_on_behind_a_run_that_differs(
    run: RunFolder, invoke: Callable[..., Any], tmp_path: Path
) -> None:
    url = str(tmp_path / "shared")
    other, _ = record([(planned("user_task_0"), Episode())])
    for one in (run, other):
        push(one.path, Place(url), silent)
    first, second = sorted((run, other), key=lambda one: one.id)
    RunFolder.reopen(first.path).close()
    remove_run(second.path)
    done = invoke(pull_command, url)
    assert done.exit_code == 1
    assert f"pulled {second.id}" in done.stdout
    assert f"{first.id} is left as it is" in done.stderr
    document = json.loads(invoke(pull_command, url, "--json").stdout)
    assert ([one["run"] for one in document["pulled"]], [one["run"] for one in document["left"]]) == (
        [second.id],
        [first.id],
    )
    # the advice holds
    remove_run(first.path)
    assert invoke(pull_command, url).exit_code == 0
    assert verify(first.path, own_key()).state == "changed"
    assert invoke(verify_command, "--accept", first.id, "--yes").exit_code == 0
    assert verify(first.path, own_key()).state == "verified"


def test_only_the_user_can_read_what_is_pushed_into_a_folder(run: RunFolder, tmp_path: Path) -> None:
    shared = tmp_path / "share" / "runs"
    push(run.path, Place(str(shared)), silent)
    found = [shared.parent, *shared.parent.rglob("*")]
    assert {path.stat().st_mode & 0o777 for path in found if path.is_dir()} == {0o700}
    assert {path.stat().st_mode & 0o777 for path in found if path.is_file()} == {0o600}


def test_files_that_are_no_part_of_a_run_stay(run: RunFolder, tmp_path: Path) -> None:
    odd = (".annotations.json.new", ".DS_Store", ".nfs0001", "logs/.swp", "logs/a b")
    for name in odd:
        (run.path / name).write_text("odd")
    place = Place(str(tmp_path / "shared"))
    manifest, _ = push(run.path, place, silent)
    assert not manifest.files.keys() & set(odd)
    assert "logs/ep_1.stdout.log" in manifest.files
    assert pull(run.id, place, silent)[1] == 0  # the same run


def test_changed_pieces_and_manifests_are_refused(
    run: RunFolder, mirror: Callable[[], Path], tmp_path: Path
) -> None:
    place = Place(str(tmp_path / "shared"))
    manifest, _ = push(run.path, place, silent)
    home = mirror()
    folder = tmp_path / "shared" / run.id
    piece = folder / "pieces" / manifest.files["grades.db"][0].sha256
    kept = piece.read_bytes()
    piece.write_bytes(b"x" + kept[1:])
    with pytest.raises(StorageError, match="has other bytes"):
        pull(run.id, place, silent)
    piece.write_bytes(kept)
    text = (folder / "manifest.json").read_text()
    for name in ("../../key", "/etc/passwd", "logs/../../ledger", "logs/a/b", ".hidden", ""):
        (folder / "manifest.json").write_text(text.replace('"grades.db"', json.dumps(name)))
        with pytest.raises(StorageError, match="is not a manifest"):
            pull(run.id, place, silent)
    (folder / "manifest.json").write_text(text.replace(run.id, "run_other"))
    with pytest.raises(StorageError, match="is of another run"):
        pull(run.id, place, silent)
    with pytest.raises(StorageError, match="is not the id of a run"):
        pull("..", place, silent)
    assert not (home / "runs").exists()


def test_a_deleted_run_that_is_pulled_back_is_for_verify_to_judge(run: RunFolder, tmp_path: Path) -> None:
    place = Place(str(tmp_path / "shared"))
    push(run.path, place, silent)
    with RunFolder.reopen(run.path) as again:
        play(again, planned("user_task_2"), Episode())
    for file in sorted(run.path.rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    run.path.rmdir()
    pull(run.id, place, silent)
    assert verify(run.path, own_key()).state == "changed"  # an earlier copy of itself


def test_a_link_is_not_followed(run: RunFolder, mirror: Callable[[], Path], tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("word")
    (run.path / "logs" / "link.log").symlink_to(secret)
    place = Place(str(tmp_path / "shared"))
    manifest, _ = push(run.path, place, silent)
    assert "logs/link.log" not in manifest.files
    home = mirror()
    aside = home / "pulling" / run.id
    aside.mkdir(parents=True)
    (aside / "recordings.db").symlink_to(secret)
    with pytest.raises(StorageError, match="cannot write"):
        pull(run.id, place, silent)
    assert secret.read_text() == "word"


def test_what_is_missing_is_named(run: RunFolder, tmp_path: Path) -> None:
    place = Place(str(tmp_path / "shared"))
    with pytest.raises(UnknownNameError, match="run_x"):
        pull("run_x", place, silent)
    with pytest.raises(WrongUseError, match="no URL that fsspec knows"):
        Place("nothing://there")
    with RunFolder.create(run_info(planned())) as empty:
        pass
    push(empty.path, place, silent)
    assert place.runs() == [empty.id]
    killed = empty.path.with_name("run_killed")
    killed.mkdir()
    (killed / "recordings.db").touch()
    with pytest.raises(StorageError, match="run_killed is empty: there is nothing to push"):
        push(killed, place, silent)


def test_manifests_have_a_bound_on_pieces() -> None:
    with pytest.raises(ValueError, match="size"):
        Manifest.model_validate_json(
            json.dumps(
                {
                    "run": "run_x", "key": "", "state": "",
                    "files": {"a": [{"sha256": "0" * 64, "size": place_module.PIECE_BYTES + 1}]},
                }
            )
        )  # fmt: skip


def test_the_commands_push_list_and_pull(
    run: RunFolder,
    mirror: Callable[[], Path],
    tmp_path: Path,
    invoke: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = str(tmp_path / "shared")
    assert "name the runs to push" in str(invoke(push_command, url).exception)
    empty = invoke(pull_command, url, "--list")
    assert (empty.exit_code, empty.stdout, empty.stderr) == (0, "", f"there are no runs at {url}\n")
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes a log for a terminal then
    pushed = invoke(push_command, run.id, url)
    assert (pushed.stdout.startswith(f"pushed {run.id}  "), pushed.stderr) == (True, "")
    mirror()
    assert invoke(pull_command, url, "--list").stdout == f"{run.id}\n"
    (pulled,) = json.loads(invoke(pull_command, url, "--json").stdout)["pulled"]
    assert (pulled["run"], pulled["moved"]) == (run.id, pulled["bytes"])
    (row,) = json.loads(invoke(report, "--json").stdout)
    assert row["episodes"] == 2
