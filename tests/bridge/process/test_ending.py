"""Ending an agent takes a bounded time, however many processes it leaves and however they replace each other."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from mcp_bench.bridge.episode import ending
from mcp_bench.bridge.process import agent as agent_module
from mcp_bench.bridge.process.agent import AgentProcess, LaunchError, agent_process
from mcp_bench.bridge.process.orphans import adopt_orphans
from mcp_bench.servers.remote.process import WorkerProcess
from tests.bridge.process.test_supervisor import first_line, launch, python
from tests.support.processes.process_table import alive

pytestmark = [pytest.mark.anyio, pytest.mark.component]

SECONDS = 20

LEFTOVERS = """
import os, signal
for _ in range({count}):
    if os.fork() == 0:
        os.setsid()
        signal.pause()
print("up", flush=True)
"""
# in each of several chains, a process starts the next one and exits, {links} times at most
CHAIN = """
import os, signal
supervisor = os.getppid()
if os.fork():
    {ending}
print("up", flush=True)
for _ in range(4):
    os.fork()
for number in range({links}):
    os.setsid() if number % 2 else None
    if os.fork():
        os._exit(0)
"""
# each process starts another when its child is gone; 40 at most at a time
HYDRA = """
import os, signal, time
end = time.monotonic() + 60
depth = 0
print("up", flush=True)
while time.monotonic() < end:
    child = os.fork() if depth < 40 else 0
    if child == 0 and depth < 40:
        os.setsid()
        depth += 1
        continue
    while time.monotonic() < end:
        time.sleep(0.001)
        if child and os.waitpid(child, os.WNOHANG)[0]:
            break
"""


@pytest.fixture
def logs(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "out", tmp_path / "err"


async def test_hundreds_of_leftovers_end_together(logs: tuple[Path, Path], tmp_path: Path) -> None:
    async with agent_process(b"", *logs) as process:
        await process.launch(python(LEFTOVERS.format(count=900)), {}, tmp_path)
        assert await process.wait() == 0
        with anyio.fail_after(SECONDS):
            await process.end()
    assert process.left == 0
    assert logs[1].read_text() == ""


@pytest.mark.parametrize(
    "source", [CHAIN.format(links=1000, ending="os._exit(0)"), HYDRA], ids=["chain", "hydra"]
)
async def test_processes_that_replace_each_other_end(
    source: str, logs: tuple[Path, Path], tmp_path: Path
) -> None:
    async with agent_process(b"", *logs) as process:
        await process.launch([sys.executable, "-I", "-S", "-c", source], {}, tmp_path)
        await first_line(logs[0])
        with anyio.fail_after(SECONDS):
            await process.end()
    assert process.left == 0
    assert logs[1].read_text() == ""


async def test_a_chain_without_its_supervisor_ends(logs: tuple[Path, Path], tmp_path: Path) -> None:
    adopt_orphans()
    source = CHAIN.format(links=1000, ending="os.kill(supervisor, signal.SIGKILL); os._exit(0)")
    async with agent_process(b"", *logs) as process:
        await launch(process, source, tmp_path)
        await process.wait()
        with anyio.fail_after(SECONDS):
            await process.end()
    assert process.left == 0


async def test_later_children_outlive_a_killed_supervisor(logs: tuple[Path, Path], tmp_path: Path) -> None:
    adopt_orphans()
    async with agent_process(b"", *logs) as process:
        await process.launch(python(LEFTOVERS.format(count=1) + "signal.pause()"), {}, tmp_path)
        await first_line(logs[0])
        program = subprocess.Popen(python("input()"), stdin=subprocess.PIPE)
        worker = WorkerProcess("mcp_bench.servers.codeworld:BENCHMARK", sys.executable)
        try:
            os.kill(process.supervisor_pid, signal.SIGKILL)
            await process.wait()
            await process.end()
            assert alive(program.pid) and alive(worker.pid)
        finally:
            program.communicate(b"\n")
            assert worker.end() == -signal.SIGKILL  # by this
            worker.socket.close()
    assert (program.returncode, process.left) == (0, 0)


STOPS_ITS_SUPERVISOR = """
import os, signal
os.kill(os.getppid(), signal.SIGSTOP)
print(os.getpid(), flush=True)
signal.pause()
"""


async def stopped_supervisor(process: AgentProcess, logs: tuple[Path, Path], folder: Path) -> int:
    adopt_orphans()
    await launch(process, STOPS_ITS_SUPERVISOR, folder)
    return int(await first_line(logs[0]))


async def test_a_stopped_supervisor_does_not_hold_the_end(
    logs: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_module, "SILENCE_SECONDS", 0.2, raising=False)
    with anyio.fail_after(SECONDS):
        async with agent_process(b"", *logs) as process:
            pid = await stopped_supervisor(process, logs, tmp_path)
    assert not alive(pid) and not alive(process.supervisor_pid)
    assert process.exit_code == -signal.SIGKILL


async def test_a_supervisor_that_never_answers_does_not_hold_the_launch(
    logs: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LAUNCH_SECONDS", "SILENCE_SECONDS"):
        monkeypatch.setattr(agent_module, name, 0.2)
    with anyio.fail_after(SECONDS):
        async with agent_process(b"", *logs) as process:
            os.kill(process.supervisor_pid, signal.SIGSTOP)
            with pytest.raises(LaunchError, match="no answer from its supervisor"):
                await process.launch(python("pass"), {}, tmp_path)
    assert not alive(process.supervisor_pid)


async def test_a_timeout_works_without_the_supervisor(
    logs: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_module, "SILENCE_SECONDS", 0.2, raising=False)
    monkeypatch.setattr(ending, "SILENCE_SECONDS", 0.2, raising=False)
    monkeypatch.setattr(ending, "STOP_SECONDS", 0.1)
    with anyio.fail_after(SECONDS):
        async with agent_process(b"", *logs) as process:
            pid = await stopped_supervisor(process, logs, tmp_path)
            assert await ending.until_over(process, 0.1, anyio.sleep_forever) == "timeout"
    assert not alive(pid)


async def test_what_cannot_be_ended_is_counted(
    logs: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process in an uninterruptible wait stands for it: here, a child that was never killed."""
    from mcp_bench.bridge.process import descendants

    child = os.fork()
    if child == 0:
        signal.pause()
    monkeypatch.setattr(descendants, "send", lambda *_: None)
    assert descendants.end_children(lambda: [child], seconds=0.1) == 1
    monkeypatch.undo()
    assert descendants.end_children(lambda: [] if descendants.reaped(child) else [child], seconds=10) == 0
