"""Copies of runs on a real S3-compatible server."""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mcp_bench.recorder.cli.copies import pull as pull_command
from mcp_bench.recorder.cli.report import report
from mcp_bench.recorder.errors import StorageError
from mcp_bench.recorder.runs.run_folder import RunFolder
from mcp_bench.recorder.storage.copies import pull, push
from mcp_bench.recorder.storage.place import Piece, Place
from mcp_bench.recorder.store.keys import key_path
from mcp_bench.recorder.verify.home import verify_home
from tests.recorder.storage.test_copies import contents, silent
from tests.support.recorded import Episode, planned, record
from tests.support.requirements import needs

pytestmark = [
    pytest.mark.component,
    needs(
        "s3",
        all(importlib.util.find_spec(name) for name in ("moto", "flask_cors", "s3fs")),
        "moto's server or s3fs is not installed",
    ),
]


class Gate:
    """Moto's server, which can begin to refuse pieces, as when a login ends."""

    def __init__(self) -> None:
        from moto.server import DomainDispatcherApplication, create_backend_app

        self._app = DomainDispatcherApplication(create_backend_app)
        self.left: int | None = None
        """Of the pieces that still pass; None: all."""

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if "/pieces/" in environ["PATH_INFO"] and self.left is not None:
            self.left -= 1
            if self.left < 0:
                start("403 Forbidden", [("Content-Type", "application/xml")])
                return [b"<Error><Code>ExpiredToken</Code><Message>The token has expired.</Message></Error>"]
        found: Iterable[bytes] = self._app(environ, start)
        return found


@pytest.fixture(scope="module")
def gate() -> Iterator[Gate]:
    from werkzeug.serving import make_server

    gate = Gate()
    server = make_server("127.0.0.1", 0, gate, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.port}")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "dummy")
        yield gate
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def place(gate: Gate, tmp_path: Path) -> Place:
    import s3fs

    bucket = tmp_path.name.replace("_", "-").lower()[-60:]
    s3fs.S3FileSystem().mkdir(bucket)
    gate.left = None
    return Place(f"s3://{bucket}/mcp-bench")


@pytest.fixture
def run(bench_home: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """A closed run of many pieces."""
    for module in ("place", "copies"):
        monkeypatch.setattr(f"mcp_bench.recorder.storage.{module}.PIECE_BYTES", 4096)
    folder, _ = record([(planned("user_task_0"), Episode()), (planned("user_task_1"), Episode(partial=0.5))])
    folder.log_path("ep_1", "stdout").write_text("said")
    return folder


def test_a_run_goes_through_a_bucket(
    run: RunFolder, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, invoke: Callable[..., Any]
) -> None:
    key = key_path()
    manifest, sent = push(run.path, place, silent)
    assert 0 < sent <= manifest.size
    assert push(run.path, place, silent)[1] == 0
    monkeypatch.setenv("MCP_BENCH_HOME", str(tmp_path / "mirror"))
    assert invoke(pull_command, place.url, "--list").stdout == f"{run.id}\n"
    assert invoke(pull_command, place.url).exit_code == 0
    assert contents(tmp_path / "mirror" / "runs" / run.id) == contents(run.path)
    (verdict,) = verify_home([run.id], key)
    assert (verdict.state, verdict.findings) == ("verified", [])
    assert " 2 " in invoke(report).stdout


def test_an_interrupted_push_goes_on(run: RunFolder, place: Place, gate: Gate) -> None:
    gate.left = 3
    with pytest.raises(StorageError, match=r"cannot write at s3://.*expired"):
        push(run.path, place, silent)
    assert (place.runs(), len(place.sizes(run.id))) == ([], 3)
    gate.left = None
    _, sent = push(run.path, place, silent)
    assert place.runs() == [run.id]
    there = place.sizes(run.id)
    assert 0 < sent < sum(there.values())


def test_an_interrupted_pull_goes_on(
    run: RunFolder, place: Place, gate: Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest, _ = push(run.path, place, silent)
    monkeypatch.setenv("MCP_BENCH_HOME", str(tmp_path / "mirror"))
    gate.left = 5
    with pytest.raises(StorageError, match=r"cannot read at s3://.*(expired|Forbidden)"):
        pull(run.id, place, silent)
    assert not (tmp_path / "mirror" / "runs").exists()
    gate.left = None
    assert 0 < pull(run.id, place, silent)[1] < manifest.size
    assert contents(tmp_path / "mirror" / "runs" / run.id) == contents(run.path)


@pytest.mark.parametrize(
    "damage", [lambda data: b"x" + data[1:], lambda data: data[:-1], lambda data: data + b"x"]
)
def test_a_damaged_object_is_refused(
    run: RunFolder,
    place: Place,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    damage: Callable[[bytes], bytes],
) -> None:
    import s3fs

    manifest, _ = push(run.path, place, silent)
    piece: Piece = manifest.files["grades.db"][0]
    path = f"{place.url}/{run.id}/pieces/{piece.sha256}"
    files = s3fs.S3FileSystem()
    files.pipe_file(path, damage(files.cat_file(path)))
    monkeypatch.setenv("MCP_BENCH_HOME", str(tmp_path / "mirror"))
    with pytest.raises(StorageError, match=f"{piece.sha256} has other bytes than were pushed"):
        pull(run.id, place, silent)
    assert not (tmp_path / "mirror" / "runs").exists()


def test_a_bucket_is_never_made(run: RunFolder, gate: Gate, invoke: Callable[..., Any]) -> None:
    gate.left = None
    elsewhere = Place("s3://mistyped/mcp-bench")
    with pytest.raises(StorageError, match="cannot write at s3://mistyped/mcp-bench"):
        push(run.path, elsewhere, silent)
    assert elsewhere.runs() == []
    assert "there are no runs at s3://mistyped" in str(invoke(pull_command, elsewhere.url).exception)
