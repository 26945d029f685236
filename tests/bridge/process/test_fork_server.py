"""Clients forked from a fork server behave like normally started agents."""

import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_bench.bridge.episode.sandbox_access import access
from mcp_bench.bridge.isolation.levels import BY_NAME
from mcp_bench.bridge.process.agent import INTERPRETER, AgentProcess, agent_process
from mcp_bench.bridge.process.fork_server_process import ForkServer
from mcp_bench.bridge.process.orphans import adopt_orphans
from mcp_bench.bridge.wire.episode_folder import EpisodeFolder
from mcp_bench.bridge.wire.peer import Peer, ancestors
from mcp_bench.plugins.contracts import Installation, Launch, WarmStart
from tests.support.levels import each_level

pytestmark = [pytest.mark.anyio, pytest.mark.component]

CLIENT = """
import ctypes, json, os, subprocess, sys

IMPORTED_BY = os.getpid()

def main():
    words = sys.argv[1:]
    if words[:1] == ["fail"]:
        sys.exit(words[1])
    if words[:1] == ["raise"]:
        raise RuntimeError("a bug in the client")
    if words[:1] == ["read"]:
        outcomes = {}
        for path in json.load(sys.stdin):  # not as arguments: an agent can read the files that they name
            try:
                outcomes[path] = open(path).read()
            except OSError as error:
                outcomes[path] = type(error).__name__
        libc = ctypes.CDLL(None)
        shared = libc.shmget(0, 4096, 0o600)
        outcomes["shared memory"] = shared >= 0
        libc.shmctl(shared, 0, None)
        print(json.dumps(outcomes))
        return
    if words[:1] == ["stay"]:
        print(subprocess.Popen(["sleep", "600"], start_new_session=True).pid, flush=True)
        return
    print(json.dumps({
        "stdin": sys.stdin.read(), "environ": dict(os.environ), "cwd": os.getcwd(), "argv": sys.argv[1:],
        "open": sorted(int(name) for name in os.listdir("/proc/self/fd"))[:-1],
        "leads": os.getpgrp() == os.getpid(), "forked": os.getpid() != IMPORTED_BY,
        "secret": any(name.startswith(b"MCP_BENCH") for name in open("/proc/self/environ", "rb").read().split(b"\\0")),
    }))
"""
MAIN = "import sys; sys.argv.pop(1); import client; client.main()"


@pytest.fixture
def warm_start(tmp_path: Path) -> Callable[..., WarmStart]:
    folder = tmp_path / "packages"
    folder.mkdir()
    (folder / "client.py").write_text(CLIENT)
    (folder / "__main__.py").write_text(MAIN)
    for place in (folder, *folder.parents):  # so that another user can enter
        if place.is_relative_to(tmp_path.parents[1]):
            place.chmod(0o755)
    return lambda *arguments: WarmStart(folder, ("client",), arguments)


@pytest.fixture
async def forks() -> AsyncIterator[ForkServer]:
    async with ForkServer() as server:
        yield server


class Started:
    """Starts clients and reads their output."""

    def __init__(self, forks: ForkServer, folder: Path) -> None:
        self.forks = forks
        self.folder = folder
        self.stdout, self.stderr = folder / "stdout", folder / "stderr"

    async def run(self, warm_start: WarmStart, env: dict[str, str] | None = None) -> int:
        """Run a client until it exits; return its exit code."""
        self.stdout.unlink(missing_ok=True)
        async with agent_process(b"hello", self.stdout, self.stderr, self.forks.fork(warm_start)) as process:
            await self.launch(process, warm_start, env)
            return await process.wait()

    async def launch(
        self, process: AgentProcess, warm_start: WarmStart, env: dict[str, str] | None = None
    ) -> None:
        argv = (INTERPRETER, "-I", "-S", str(warm_start.folder), "client", *warm_start.arguments)
        await process.launch(argv, env or {}, self.folder, warm_start=warm_start)

    @property
    def printed(self) -> Any:
        return json.loads(self.stdout.read_bytes())


@pytest.fixture
def started(forks: ForkServer, tmp_path: Path) -> Started:
    return Started(forks, tmp_path)


async def test_a_fork_gets_exactly_what_its_launch_says(
    started: Started, warm_start: Callable[..., WarmStart], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCP_BENCH_ANSWER_KEY", "not for agents")
    assert await started.run(warm_start("a", "b"), {"ONLY": "this"}) == 0
    assert started.printed == {
        "stdin": "hello",
        "environ": {"ONLY": "this"},
        "cwd": str(started.folder),
        "argv": ["a", "b"],
        "open": [0, 1, 2],
        "leads": True,
        "forked": True,
        "secret": False,
    }
    assert started.stderr.read_text() == ""


async def test_one_server_starts_many_clients(
    started: Started, warm_start: Callable[..., WarmStart], forks: ForkServer
) -> None:
    servers = set()
    for number in range(3):
        async with agent_process(b"", started.stdout, started.stderr, forks.fork(warm_start())) as process:
            servers.add(ancestors(Peer(process.supervisor_pid, None))[1])
            await started.launch(process, warm_start(str(number)))
            assert await process.wait() == 0
    assert len(servers) == 1 and servers != {os.getpid()}


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("fail", "in words"), 1, "in words\n"),
        (("raise",), 1, "RuntimeError: a bug in the client\n"),
    ],
)
async def test_a_failure_exits_as_in_a_fresh_python(
    started: Started, warm_start: Callable[..., WarmStart], arguments: tuple[str, ...], code: int, words: str
) -> None:
    assert await started.run(warm_start(*arguments)) == code
    assert started.stderr.read_text().endswith(words)


async def test_what_a_fork_leaves_behind_is_gone(
    started: Started, warm_start: Callable[..., WarmStart], forks: ForkServer
) -> None:
    async with agent_process(b"", started.stdout, started.stderr, forks.fork(warm_start())) as process:
        await started.launch(process, warm_start("stay"))
        assert await process.wait() == 0
        left = int(started.stdout.read_text())
        assert process.supervisor_pid in ancestors(Peer(left, None))
        supervisor = process.supervisor_pid
    assert not Path(f"/proc/{left}").exists()
    assert not Path(f"/proc/{supervisor}").exists()


async def test_a_killed_server_is_replaced(
    started: Started, warm_start: Callable[..., WarmStart], forks: ForkServer
) -> None:
    adopt_orphans()
    async with agent_process(b"", started.stdout, started.stderr, forks.fork(warm_start())) as process:
        server = ancestors(Peer(process.supervisor_pid, None))[1]
        os.kill(server, signal.SIGKILL)
        await started.launch(process, warm_start("in-flight"))
        assert await process.wait() == 0  # supervisors survive
    assert started.printed["argv"] == ["in-flight"]
    for _ in range(2):  # started normally, then by a new server
        assert await started.run(warm_start("next")) == 0
        assert started.printed["argv"] == ["next"]
    assert started.printed["forked"]


async def test_a_client_that_fails_to_import_is_started_normally(
    started: Started, warm_start: Callable[..., WarmStart]
) -> None:
    (warm_start().folder / "client.py").write_text("import nowhere_to_be_found")
    assert await started.run(warm_start()) == 1
    assert "No module named 'nowhere_to_be_found'" in started.stderr.read_text()


@each_level()
async def test_a_fork_is_confined_like_any_agent(
    level: str, forks: ForkServer, warm_start: Callable[..., WarmStart], tmp_path: Path
) -> None:
    adopt_orphans()
    secret = tmp_path / "secret"
    secret.write_text("the answers")
    secret.chmod(0o644)
    with EpisodeFolder() as folder, ExitStack() as held:
        note = folder.workdir / "note"
        note.write_text("for the agent")
        asked = warm_start("read")
        argv = (INTERPRETER, "-I", "-S", str(asked.folder), "client", *asked.arguments)
        out, err = tmp_path / "out", tmp_path / "err"
        paths = json.dumps([str(secret), str(note)]).encode()
        async with agent_process(paths, out, err, forks.fork(asked)) as process:
            launch = Launch(argv, warm_start=asked)
            needs = access(Installation(sys.executable, "1"), launch, folder.path, {})
            confinement = held.enter_context(BY_NAME[level].confined(needs))
            await process.launch(argv, {}, folder.workdir, confinement=confinement, warm_start=asked)
            with anyio.fail_after(60):
                assert await process.wait() == 0, err.read_text()
        outcomes = json.loads(out.read_text())
    assert outcomes[str(note)] == "for the agent"
    assert outcomes["shared memory"] is False, "it has the filter of system calls"
    assert outcomes[str(secret)] in ("PermissionError", "FileNotFoundError")
