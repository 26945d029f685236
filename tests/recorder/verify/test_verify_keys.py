"""The key that rows are signed with: who may read it, and what `mcp-bench verify` says of another or a damaged one."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from mcp_bench.recorder.cli.verify import verify
from mcp_bench.recorder.errors import StorageError
from mcp_bench.recorder.runs.parts import resume_run
from mcp_bench.recorder.runs.run_folder import RunFolder
from mcp_bench.recorder.store.keys import key_path, own_key
from tests.support.recorded import Episode, planned, play, run_info

pytestmark = pytest.mark.system

Invoke = Callable[..., Result]


@pytest.fixture
def run(bench_home: Path) -> Path:
    """A closed run with a graded episode."""
    with RunFolder.create(run_info(planned("a"))) as folder:
        play(folder, folder.info.plan[0], Episode(calls=[("transfer", {"amount": 1}, "done")]))
    return folder.path


def verdicts(invoke: Invoke, *arguments: str | Path) -> tuple[int, list[dict[str, Any]]]:
    result = invoke(verify, *arguments, "--json")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, json.loads(result.stdout)


def test_only_the_owner_may_read_the_key(run: Path) -> None:
    assert key_path().stat().st_mode & 0o777 == 0o600
    secret = key_path().read_text().strip()
    stored = b"".join(path.read_bytes() for path in run.rglob("*") if path.is_file())
    assert secret.encode() not in stored
    assert bytes.fromhex(secret) not in stored
    assert own_key().id.encode() in stored
    assert secret not in repr(own_key())


def test_a_run_of_another_home_cannot_be_verified_here(run: Path, invoke: Invoke, tmp_path: Path) -> None:
    theirs = key_path().rename(tmp_path / "their-key")
    for own in (False, True):
        if own:
            own_key()
        code, (verdict,) = verdicts(invoke)
        assert (code, verdict["verdict"], verdict["findings"]) == (1, "other key", [])
    assert verdicts(invoke, "--key", theirs)[0] == 0
    assert "tampered" not in invoke(verify).output
    with pytest.raises(Exception, match="was recorded with the key"):
        resume_run(run.name)


def test_a_damaged_key_is_reported(run: Path, invoke: Invoke) -> None:
    key_path().write_text("nonsense")
    assert "is not a key" in str(invoke(verify).exception)


def test_concurrent_creation_yields_one_key(bench_home: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(8) as pool:
        assert len({key.id for key in pool.map(lambda _: own_key(), range(32))}) == 1
    assert [path.name for path in bench_home.iterdir()] == ["key"]


def test_a_key_that_cannot_be_written_leaves_nothing(
    bench_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match=r"cannot write the key .*: No space left on device"):
        own_key()
    assert not [*bench_home.iterdir()]
