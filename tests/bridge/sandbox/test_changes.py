"""Changes are listed within bounds, whatever the files are: what costs an agent nothing costs us little."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

import pytest

from mcp_bench.bridge.sandbox import changes
from mcp_bench.bridge.sandbox.changes import PATH_BYTES, Reading, TooLongError
from mcp_bench.servers.errors import SandboxEndedError
from mcp_bench.servers.sandbox import Sandbox, SandboxLimits

pytestmark = [pytest.mark.anyio, pytest.mark.component]
MIB = 1 << 20
LIMITS = {"storage": 64 * MIB, "files": 100}


async def test_many_long_paths_end_it_instead_of_being_kept(sandbox: Sandbox) -> None:
    deep = "import os\nfor _ in range(900):\n  os.mkdir('d' * 250); os.chdir('d' * 250)"
    await sandbox.run(f'python3 -c "{deep}"')
    with pytest.raises(SandboxEndedError, match="files: their paths are too long"):
        await sandbox.changes()
    assert sandbox.over.startswith("files")


def test_targets_of_links_count_as_paths(tmp_path: Path) -> None:
    for number in range(10):
        (tmp_path / str(number)).symlink_to("x" * PATH_BYTES)
    opened = list(Path("/proc/self/fd").iterdir())
    with pytest.raises(TooLongError, match="files: their paths"):
        changes.of([str(tmp_path)], Reading({**LIMITS, "files": 5}, 60))
    assert len(list(Path("/proc/self/fd").iterdir())) == len(opened)
    assert len(changes.of([str(tmp_path)], Reading({**LIMITS, "files": 11}, 60))) == 10


async def test_files_that_take_too_long_end_it(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    await sandbox.run("echo x >file")
    monkeypatch.setattr(SandboxLimits, "changes_seconds", -1.0)
    with pytest.raises(SandboxEndedError, match="take too long"):
        await sandbox.changes()


def test_holes_are_hashed_and_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = {0: b"begin", 5 * MIB - 2: b"middle", 9 * MIB: b"end"}
    with (tmp_path / "sparse").open("wb") as file:
        for place, data in pieces.items():
            file.seek(place)
            file.write(data)
        file.truncate(20 * MIB)
    (tmp_path / "empty").touch()
    read = list[int]()

    def pread(place: int, size: int, at: int, own=os.pread) -> bytes:
        read.append(size)
        return own(place, size, at)

    expected = {path.name: sha256(path.read_bytes()).hexdigest() for path in tmp_path.iterdir()}
    monkeypatch.setattr(os, "pread", pread)
    found = changes.of([str(tmp_path)], Reading(LIMITS, 60))
    assert {change["path"][1:]: change["sha256"] for change in found} == expected
    assert 0 < sum(read) < 10 * MIB


def test_more_storage_may_be_read_for_longer() -> None:
    assert SandboxLimits().changes_seconds > 100
    assert SandboxLimits(storage=10240 * MIB).changes_seconds == 60 + 320
