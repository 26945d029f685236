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
    listed = printed(task, dockerfile, "cd /app && find . -type f; ls /run /tmp")
    return {line[2:] for line in listed.splitlines() if line.startswith("./")}


def printed(task: TaskFolder, dockerfile: str, command: str) -> str:
    """Return what a command prints where a Dockerfile was followed."""

    async def run() -> str:
        host = SandboxHost()
        try:
            sandbox = await host.sandbox(SandboxSpec(workdir="/app"))
            await build(sandbox, task, parsed(f"FROM a\n{dockerfile}"), key="")
            return (await sandbox.run(command)).output
        finally:
            await host.sandboxes.aclose()

    return anyio.run(run)


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


def test_what_dockerignore_names_is_not_copied(tmp_path: Path) -> None:
    folder = harbor_task(tmp_path / "a")
    write(folder, {"environment/.dockerignore": "data/raw\n.dockerignore\n"})
    write(folder, {"environment/data/raw/x": "x", "environment/data/y": "y"})
    task = TaskFolder(folder, "a", "harbor", {})
    made = built(task, "COPY data /app/data\nCOPY . /app/all\n")
    assert "data/y" in made and "all/data/y" in made
    assert not {"data/raw/x", "all/data/raw/x", "all/.dockerignore"} & made


def test_chown_is_of_what_is_copied(tmp_path: Path) -> None:
    folder = harbor_task(tmp_path / "a")
    write(folder, {"environment/own/sub/x": "x"})
    with tarfile.open(folder / "environment" / "packed.tar", "w") as tar:
        tar.addfile(tarfile.TarInfo("unpacked"), io.BytesIO())
    task = TaskFolder(folder, "a", "harbor", {})
    made = printed(
        task,
        "RUN mkdir -p /opt/there && touch /opt/there/old\n"
        "COPY --chown=5:6 notes.txt /opt/there/\nCOPY --chown=5:6 notes.txt /opt/there/old2\n"
        "COPY --chown=5:6 own /opt/there\nADD --chown=5:6 packed.tar /opt/there\n"
        "COPY --chown=5:6 notes.txt /opt/new/\nCOPY --chown=7:8 notes.txt /opt/there/old2\n",
        "cd /opt && find there new -printf '%p %U:%G\\n' | sort",
    )
    assert made.split("\n") == [
        "new 5:6",
        "new/notes.txt 5:6",
        "there 0:0",
        "there/notes.txt 5:6",
        "there/old 0:0",
        "there/old2 7:8",
        "there/sub 5:6",
        "there/sub/x 5:6",
        "there/unpacked 5:6",
        "",
    ]
