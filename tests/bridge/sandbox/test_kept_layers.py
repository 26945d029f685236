"""Built files are kept by key: the next sandbox begins with them, and nothing half is ever used."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcp_bench.bridge.sandbox import kept_layers
from mcp_bench.bridge.sandbox.engine import engines
from mcp_bench.servers.sandbox import SandboxSpec
from tests.support.requirements import needs
from tests.support.task_folders import harbor_task, opened

BWRAP = engines()["bwrap"]
pytestmark = [pytest.mark.system, pytest.mark.anyio]
ALMOST_1_MIB = (1 << 20) - 2048  # its two entries count 1024 bytes, and the link its target
HALF = """
import os, signal, sys, pathlib
from mcp_bench.bridge.sandbox import kept_layers
owned = kept_layers._owned
def killed(*given):
    os.kill(os.getpid(), signal.SIGKILL)
kept_layers._owned = killed
kept_layers.keep("half", pathlib.Path(sys.argv[1]), int)
"""


@pytest.fixture(autouse=True)
def own_home(bench_home: Path) -> Iterator[Path]:
    yield bench_home


def upper(folder: Path, size: int = 10) -> Path:
    (folder / "opt").mkdir(parents=True)
    (folder / "opt" / "file").write_bytes(b"x" * size)
    (folder / "opt" / "file").chmod(0o4750)
    (folder / "link").symlink_to("/opt/file")
    return folder


def own(found: int) -> int:
    return found


@needs("bwrap", BWRAP.support().works, BWRAP.support().detail)
async def test_a_sandbox_begins_with_what_another_one_built() -> None:
    build = (
        "mkdir -p /opt/made /work/a && echo built >/opt/made/file && chmod 640 /opt/made/file && "
        "ln -s /opt/made/file /work/link && echo old >/work/a/old && rm -r /etc/shells /var/log; mkdir /var/log; "
        "chown 5:6 /work/link /work/a/old 2>/dev/null; stat -c '%n %u %g %a %s %F' /opt/made/* /work/a/*; ls /var/log /etc | sort"
    )
    look = "stat -c '%n %u %g %a %s %F' /opt/made/* /work/a/*; ls /var/log /etc | sort"
    spec = SandboxSpec(kept="one")
    async with BWRAP.sandbox(spec) as sandbox:
        assert not sandbox.enforced.kept
        built = await sandbox.run(build)
        await sandbox.commit(keep="one")
        assert await sandbox.changes() == ()
    async with BWRAP.sandbox(spec) as sandbox:
        assert sandbox.enforced.kept
        assert (await sandbox.run(look)).output == built.output
        assert await sandbox.changes() == ()
        done = await sandbox.run("cat /work/link && echo more >>/opt/made/file && rm /work/a/old")
        assert (done.output, done.code) == ("built\n", 0)
        left = {change.path: change.kind for change in await sandbox.changes()}
        assert (left["/opt/made/file"], left["/work/a/old"]) == ("file", "deleted")
        assert kept_layers.remove() == []  # it is in use
        await sandbox.renew()
        assert (await sandbox.run("cat /opt/made/file")).output == "built\nmore\n"
    async with BWRAP.sandbox(spec) as sandbox:  # nothing of that one is in the layer
        assert (await sandbox.run("cat /opt/made/file /work/a/old")).output == "built\nold\n"


@needs("bwrap", BWRAP.support().works, BWRAP.support().detail)
async def test_a_task_is_built_once(tmp_path: Path) -> None:
    folder = harbor_task(tmp_path / "task")
    dockerfile = folder / "environment" / "Dockerfile"
    dockerfile.write_text(dockerfile.read_text() + "RUN cat /proc/sys/kernel/random/uuid >/opt/made/number\n")
    shutil.rmtree(folder / "solution")  # it is not played first
    seen = []
    for numbers in ("1,2\n", "1,2\n", "3\n"):
        (folder / "environment" / "data" / "numbers.csv").write_text(numbers)
        async with opened(folder) as world:
            seen.append((await world.sandbox.run("cat /opt/made/number /app/numbers.csv")).output)
            assert not (await world.sandbox.changes())
    assert seen[0] == seen[1]
    assert seen[2][:36] != seen[0][:36]
    assert seen[2].endswith("\n3\n")
    assert len(kept_layers.kept()) == 2


def test_a_killed_process_leaves_no_half_layer(tmp_path: Path, own_home: Path) -> None:
    command = [sys.executable, "-c", HALF, str(upper(tmp_path / "upper"))]
    done = subprocess.run(command, check=False, env={**os.environ, "MCP_BENCH_HOME": str(own_home)})
    assert done.returncode == -signal.SIGKILL
    [part] = kept_layers.place().iterdir()
    assert (part / "files").is_dir()
    with kept_layers.used("half") as found:
        assert found is None
    assert kept_layers.remove() == []
    assert part.exists()  # it could be about to be locked
    os.utime(part, (0, 0))
    assert kept_layers.remove() == []
    assert not part.exists()


def test_where_nothing_can_be_written_nothing_is_kept(tmp_path: Path, own_home: Path) -> None:
    """A world opens all the same."""
    own_home.mkdir()
    (own_home / "cache").touch()
    assert not kept_layers.keep("one", upper(tmp_path / "files"), own)
    assert kept_layers.kept() == []


def test_only_the_last_used_layers_that_fit_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(kept_layers.VARIABLE, "4")
    for number in range(6):
        assert kept_layers.keep(f"layer-{number}", upper(tmp_path / str(number), ALMOST_1_MIB), own)
        os.utime(kept_layers.place() / f"layer-{number}", (1e9 + number, 1e9 + number))
        monkeypatch.setattr("time.time", lambda: 1e9)
    assert [one.key for one in kept_layers.kept()] == ["layer-5", "layer-4", "layer-3", "layer-2"]
    assert not kept_layers.keep("large", upper(tmp_path / "large", 2 << 20), own)
    assert not list(kept_layers.place().glob(".*"))
    with kept_layers.used("layer-3") as found:
        assert found is not None
        file = found / "opt" / "file"
        assert (stat.S_IMODE(file.stat().st_mode), file.stat().st_size) == (0o4750, ALMOST_1_MIB)
        assert [one.key for one in kept_layers.remove()] == ["layer-5", "layer-4", "layer-2"]
    monkeypatch.setenv(kept_layers.VARIABLE, "0")
    assert not kept_layers.keep("more", upper(tmp_path / "more"), own)


def test_the_command_lists_and_removes_layers(bench, tmp_path: Path) -> None:
    kept_layers.keep("task-1", upper(tmp_path / "upper"), own)
    [row] = json.loads(bench.run("layers", "--json").stdout)["layers"]
    assert (row["key"], row["bytes"] > 0) == ("task-1", True)
    bench.environ[kept_layers.VARIABLE] = "0"  # it was used today, so it stays
    assert "nothing was removed" in bench.run("layers", "--remove", "--unused-for", "1").stderr
    assert bench.run("layers", "--remove").stdout.startswith("removed task-1  ")
    assert "no layer is kept" in bench.run("layers").stderr
    assert "--unused-for goes with --remove" in bench.run("layers", "--unused-for", "1", code=2).stderr
