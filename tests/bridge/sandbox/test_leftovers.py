"""Folders that killed referees left are removed, and nothing else is."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from mcp_bench.bridge.sandbox import leftovers
from mcp_bench.bridge.sandbox.leftovers import remove_leftovers, state_folder
from mcp_bench.servers.sandbox import SandboxSpec
from tests.support.machines.sandbox_engines import NAMES, engine

pytestmark = pytest.mark.component
KILLED = """
import os, signal, sys
from mcp_bench.bridge.sandbox.leftovers import state_folder
with state_folder(None) as folder:
    (folder / "state" / "deep").mkdir()
    (folder / "state" / "deep" / "link").symlink_to(sys.argv[1])
    print(folder, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def old(folder: Path) -> Path:
    os.utime(folder, (0, 0))
    return folder


def test_what_a_killed_process_left_is_removed(tmp_path, monkeypatch) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("mine")
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(kept)], stdout=subprocess.PIPE, text=True, check=False,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    left = Path(done.stdout.strip())
    assert (left / "state" / "deep" / "link").is_symlink()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert remove_leftovers() == []  # it could be about to be locked
    assert remove_leftovers(old(left).parent) == [left]
    assert not left.exists()
    assert (kept / "file").read_text() == "mine"


def test_a_folder_in_use_stays(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with state_folder(None) as folder:
        assert remove_leftovers(old(folder).parent) == []
        assert (folder / "state").is_dir()
    assert not folder.exists()


def test_links_and_foreign_folders_stay(tmp_path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (target / "file").write_text("mine")
    (tmp_path / "mcp-bench-box-link").symlink_to(target)
    (tmp_path / "mcp-bench-box-file").write_text("")
    shared = tmp_path / "mcp-bench-box-shared"
    shared.mkdir()
    shared.chmod(0o777)  # anybody could have put it there
    foreign = tmp_path / "mcp-bench-box-foreign"
    foreign.mkdir()
    if os.geteuid() == 0:
        os.chown(old(foreign), 60000, 60000)
    else:
        foreign.rmdir()
    assert remove_leftovers(old(shared).parent) == []
    assert shared.is_dir()
    assert (target / "file").read_text() == "mine"
    assert foreign.is_dir() == (os.geteuid() == 0)


@pytest.mark.anyio
@pytest.mark.parametrize("name", NAMES)
async def test_the_files_of_a_sandbox_are_removed_aside(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They can be many, and the referee serves other episodes meanwhile."""
    removed = list[tuple[Path, bool]]()

    def remove(folder: Path, held: int, own=leftovers.remove_folder) -> None:
        own(folder, held)
        removed.append((folder, threading.current_thread() is threading.main_thread()))

    monkeypatch.setattr(leftovers, "remove_folder", remove)
    async with engine(name).sandbox(SandboxSpec()):
        removed.clear()
    [(folder, in_loop)] = removed
    assert not in_loop and not folder.exists()
