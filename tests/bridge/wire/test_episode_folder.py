"""The referee works in a folder that belongs to the agent: no link of the agent leads it elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from mcp_bench.bridge.wire import episode_folder
from mcp_bench.bridge.wire.episode_folder import EpisodeFolder

pytestmark = pytest.mark.component

DEPTH = 1200
"""More levels than Python's stack has frames, and than most limits of open files."""


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Use a folder with a short path, for the sockets."""
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield


KILLED = """
import os, signal
from mcp_bench.bridge.wire.episode_folder import EpisodeFolder
folder = EpisodeFolder()
(folder.home / "login").write_text("secret")
print(folder.path, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.anyio
async def test_what_a_killed_process_left_is_removed_at_the_next_episode() -> None:
    """The folder of an episode that goes on stays."""
    environment = {**os.environ, "TMPDIR": tempfile.gettempdir()}
    pipe = subprocess.PIPE
    done = await anyio.run_process([sys.executable, "-c", KILLED], stdout=pipe, env=environment, check=False)
    left = Path(done.stdout.decode().strip())
    assert (left / "home/login").exists()
    with EpisodeFolder() as going:
        for path in (left, going.path):
            os.utime(path, (0, 0))  # a young one may be about to be locked
        episode_folder.remove_left_once.cache_clear()
        async with EpisodeFolder():
            assert (left.exists(), going.home.exists()) == (False, True)


def test_ready_is_not_marked_through_a_link(tmp_path: Path) -> None:
    with EpisodeFolder() as folder:
        folder.relay.rename(folder.path / "away")
        folder.relay.symlink_to(tmp_path)
        folder.mark_ready()
        assert (folder.path / "away/ready").exists()
    with EpisodeFolder() as folder:
        folder.ready.symlink_to(tmp_path / "ready")
        folder.mark_ready()
    assert list(tmp_path.iterdir()) == []


def test_a_deep_folder_is_removed() -> None:
    with EpisodeFolder() as folder:
        at = os.open(folder.workdir, os.O_RDONLY)
        for _ in range(DEPTH):
            os.mkdir("d", dir_fd=at)
            below = os.open("d", os.O_RDONLY, dir_fd=at)
            os.close(at)
            at = below
        os.close(at)
    assert not folder.path.exists()


def test_a_folder_that_the_agent_moved_is_emptied(tmp_path: Path) -> None:
    (tmp_path / "kept").touch()
    with EpisodeFolder() as folder:
        away = folder.path.with_name("away")
        folder.path.rename(away)
        folder.path.symlink_to(tmp_path)
    assert list(away.iterdir()) == []
    assert (tmp_path / "kept").exists() and folder.path.is_symlink()


def test_removal_follows_no_link(tmp_path: Path) -> None:
    (tmp_path / "kept").touch()
    (tmp_path / "kept").chmod(0o640)
    with EpisodeFolder() as folder:
        (folder.home / "1").symlink_to(tmp_path)
        (folder.workdir / "2").symlink_to(tmp_path / "kept")
        os.link(tmp_path / "kept", folder.workdir / "3")
        closed = folder.workdir / "closed"
        (closed / "1/2/3").mkdir(parents=True)
        os.mkfifo(closed / "pipe")
        for place in (closed / "1", closed):
            place.chmod(0)
        folder.home.rename(folder.path / "1")
        folder.scratch.rmdir()
        folder.scratch.symlink_to(tmp_path)
    assert not folder.path.exists()
    assert (tmp_path / "kept").stat().st_mode & 0o777 == 0o640
