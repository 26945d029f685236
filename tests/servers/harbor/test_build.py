"""COPY and ADD: what is copied where, and what of a task never is."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import anyio
import pytest

from mcp_bench.bridge.sandbox.engine import engines
from mcp_bench.servers.harbor.build import build
from mcp_bench.servers.harbor.dockerfile import parsed
from mcp_bench.servers.harbor.folder import TaskFolder
from mcp_bench.servers.sandbox import SandboxSpec
from tests.support.requirements import needs
from tests.support.task_folders import SandboxHost, harbor_task, terminal_bench_task, write

BWRAP = engines()["bwrap"]
pytestmark = [pytest.mark.system, needs("bwrap", BWRAP.support().works, BWRAP.support().detail)]


def built(task: TaskFolder, dockerfile: str) -> set[str]:
    """Return the files that a Dockerfile makes in /app."""

    async def listed() -> str:
        host = SandboxHost()
        try:
            sandbox = await host.sandbox(SandboxSpec(workdir="/app"))
            await build(sandbox, task, parsed(f"FROM a\n{dockerfile}"), key="")
            return (await sandbox.run("cd /app && find . -type f; ls /run /tmp")).output
        finally:
            await host.sandboxes.aclose()

    return {line[2:] for line in anyio.run(listed).splitlines() if line.startswith("./")}


def test_nothing_of_a_terminal_bench_tasks_own_is_copied(tmp_path: Path) -> None:
    folder = terminal_bench_task(tmp_path / "real")
    write(folder, {"run.sh": "true\n", "data/tests/kept": "x"})
    (tmp_path / "link").symlink_to(folder)
    task = TaskFolder(tmp_path / "link", "a", "terminal-bench", {})
    assert built(task, "COPY *.sh solution.sh /app/\nCOPY data /app/data\n") == {"run.sh", "data/tests/kept"}


def test_copy_into_a_folder_and_add_of_an_archive(tmp_path: Path) -> None:
    folder = harbor_task(tmp_path / "a")
    write(folder, {"environment/tests/test_mine.py": "x", "environment/solution/x": "x"})
    with tarfile.open(folder / "environment" / "packed.tar", "w") as tar:
        tar.addfile(tarfile.TarInfo("unpacked"), io.BytesIO())
    task = TaskFolder(folder, "a", "harbor", {})
    made = built(task, "WORKDIR /app\nCOPY notes.txt /app\nCOPY . /app/all\nADD packed.tar /app/tar\n")
    assert made >= {"notes.txt", "all/tests/test_mine.py", "all/solution/x", "tar/unpacked"}
