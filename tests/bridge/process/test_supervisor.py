"""All processes of an agent are gone when its episode ends, however they try to stay."""

import os
import signal
import sys
from pathlib import Path

import anyio
import pytest

from mcp_bench.bridge.isolation.level import Confinement, rules
from mcp_bench.bridge.process.agent import AgentProcess, LaunchError, agent_process
from mcp_bench.bridge.process.orphans import adopt_orphans
from mcp_bench.bridge.wire.peer import Peer, ancestors
from tests.support.processes.process_table import alive

pytestmark = [pytest.mark.anyio, pytest.mark.component]

DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:                      # double fork: our parent is gone, our session is new
        print(os.getpid(), flush=True)
        time.sleep(600)
    os._exit(0)
os.wait()
{ending}
"""
STAYS = """
import os, signal, subprocess, sys
agent = subprocess.Popen(sys.argv[1:], close_fds=False)
os.closerange(3, 1000)
agent.wait()
print("ended", flush=True)
signal.pause()
"""
"""A sandbox that ends after its agent."""


def python(source: str) -> list[str]:
    return [sys.executable, "-c", source]


async def first_line(path: Path) -> str:
    with anyio.fail_after(20):
        while not (text := path.read_text()).endswith("\n"):
            await anyio.lowlevel.checkpoint()
    return text.splitlines()[0]


async def launch(process: AgentProcess, source: str, folder: Path) -> None:
    """Launch a program that harms its supervisor: it begins when the supervisor has answered the launch."""
    os.mkfifo(folder / "launched")
    await process.launch(python(f"open('launched').close()\n{source}"), {}, folder)
    (folder / "launched").open("w").close()


@pytest.fixture
def logs(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "out", tmp_path / "err"


async def test_stdin_environment_and_folder_reach_the_agent(logs: tuple[Path, Path], tmp_path: Path) -> None:
    show = "import os, sys; print(sys.stdin.read(), sorted(os.environ), os.getcwd()); sys.exit(7)"
    async with agent_process(b"hello", *logs) as process:
        await process.launch(python(show), {"ONLY": "this", "LC_CTYPE": "C.UTF-8"}, tmp_path)
        assert await process.wait() == 7
    assert logs[0].read_text() == f"hello ['LC_CTYPE', 'ONLY'] {tmp_path}\n"


async def test_a_daemon_that_left_its_session_is_gone(logs: tuple[Path, Path], tmp_path: Path) -> None:
    async with agent_process(b"", *logs) as process:
        await process.launch(python(DAEMON.format(ending="")), {}, tmp_path)
        assert await process.wait() == 0
        daemon = int(await first_line(logs[0]))
        assert alive(daemon)
        assert process.supervisor_pid in ancestors(Peer(daemon, None))
    assert not alive(daemon)
    assert logs[1].read_text() == ""  # the agent's stderr: its supervisor says nothing there


async def test_an_agent_that_ignores_sigterm_is_killed(logs: tuple[Path, Path], tmp_path: Path) -> None:
    stubborn = (
        "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
    )
    async with agent_process(b"", *logs) as process:
        await process.launch(python(stubborn), {}, tmp_path)
        await first_line(logs[0])
        await process.stop(grace=0.05)
        assert await process.wait() == -signal.SIGKILL


async def test_a_stopped_agent_can_clean_up(logs: tuple[Path, Path], tmp_path: Path) -> None:
    tidy = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))
print("up", flush=True)
time.sleep(600)
"""
    async with agent_process(b"", *logs) as process:
        await process.launch(python(tidy), {}, tmp_path)
        await first_line(logs[0])
        await process.stop(grace=30)
        assert await process.wait() == 5


async def test_an_agent_can_be_stopped_that_has_ended_before_its_sandbox(
    logs: tuple[Path, Path], tmp_path: Path
) -> None:
    around = Confinement(rules(None, ()), tuple(python(STAYS)))
    async with agent_process(b"", *logs) as process:
        await process.launch(["/bin/true"], {}, tmp_path, confinement=around)
        assert await first_line(logs[0]) == "ended"
        await process.stop(grace=0)
        assert await process.wait() == -signal.SIGKILL
    assert logs[1].read_text() == ""


async def test_a_missing_program_is_a_launch_error(logs: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match="/no/such/agent: No such file"):
        async with agent_process(b"", *logs) as process:
            await process.launch(["/no/such/agent"], {}, tmp_path)


async def test_an_impossible_argument_is_a_launch_error(logs: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match="null byte"):
        async with agent_process(b"", *logs) as process:
            await process.launch([*python("pass"), "a\0b"], {}, tmp_path)


async def test_the_referee_ends_orphans_of_a_killed_supervisor(
    logs: tuple[Path, Path], tmp_path: Path
) -> None:
    adopt_orphans()
    kill_parent = "os.kill(os.getppid(), 9); time.sleep(600)"
    async with agent_process(b"", *logs) as process:
        await launch(process, DAEMON.format(ending=kill_parent), tmp_path)
        assert await process.wait() == -signal.SIGKILL
        daemon = int(await first_line(logs[0]))
    assert not alive(daemon)


async def test_a_dead_referee_takes_the_agent_with_it(logs: tuple[Path, Path], tmp_path: Path) -> None:
    agent = python(DAEMON.format(ending="time.sleep(600)"))
    referee = f"""
import anyio, os, sys
from pathlib import Path
from mcp_bench.bridge.process.agent import agent_process
async def main():
    async with agent_process(b"", Path({str(logs[0])!r}), Path({str(logs[1])!r})) as process:
        await process.launch({agent!r}, {{}}, Path("/"))
        print(process.supervisor_pid, flush=True)
        await anyio.sleep_forever()
anyio.run(main)
"""
    process = await anyio.open_process(python(referee))
    assert process.stdout is not None
    supervisor = int(await process.stdout.receive())
    daemon = int(await first_line(logs[0]))
    process.kill()
    await process.aclose()
    with anyio.fail_after(20):
        while alive(daemon) or alive(supervisor):
            await anyio.lowlevel.checkpoint()
