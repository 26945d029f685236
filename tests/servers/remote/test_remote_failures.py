"""What a benchmark's code does wrong ends its own request, and neither the worker nor other worlds."""

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from mcp_bench.servers.errors import SandboxEndedError, WrongUseError
from mcp_bench.servers.host import open_world
from mcp_bench.servers.mcp_server.world_session import WorldSession
from mcp_bench.servers.remote import RemoteBenchmark
from mcp_bench.servers.remote.failures import RemoteFailureError
from mcp_bench.servers.sandbox import Enforced, SandboxSpec

pytestmark = [pytest.mark.anyio, pytest.mark.component]

CLUMSY = """
import asyncio, datetime, subprocess, sys
from mcp_bench.servers.errors import BenchError
from mcp_bench.servers.sdk import *
from mcp_bench.servers.worlds.shell_world import ShellWorld

class Clumsy(SimpleWorld):
    def __init__(self, name):
        self.name = name

    @tool
    async def lost(self) -> str:
        "Wait for a task of its own that is cancelled."
        task = asyncio.ensure_future(asyncio.sleep(60))
        task.cancel()
        await task

    @tool
    async def panic(self) -> str:
        "Raise what is no Exception."
        raise BaseException("torn")

    @tool
    async def wait(self) -> str:
        "Wait for the others."
        await RELEASED.wait()
        return "waited"

    @tool
    async def release(self) -> str:
        "Let those who wait go on."
        RELEASED.set()
        return "released"

    def tools(self):
        if self.name == "toolless":
            raise ValueError("no tools")
        return super().tools()

    def checks(self, answer):
        return [AssertionResult(name="x", passed=False)]

    async def snapshot(self):
        return {"set": {1, 2}, "date": datetime.date.today(), "huge": 10**5000}.get(self.name, "fine")

    async def close(self):
        if self.name == "toolless":
            print("toolless closed", file=sys.stderr, flush=True)

RELEASED = asyncio.Event()

class Shell(ShellWorld):
    def checks(self, answer):
        return [AssertionResult(name="x", passed=False)]

class Many(SimpleBenchmark):
    name, toolset = "clumsy", Clumsy.toolset

    def ids(self, split):
        return ["fine", "set", "date", "huge", "toolless", "shell"] if split == "test" else []

    def make_task(self, name):
        return Task(id=name, benchmark="clumsy", prompt="p", split="test", domain="d")

    async def make_world(self, name, seed, host=NO_HOST):
        return Shell(await host.sandbox(SandboxSpec())) if name == "shell" else Clumsy(name)

BENCHMARK = Many()
"""


@pytest.fixture
async def clumsy(tmp_path: Path) -> AsyncIterator[RemoteBenchmark]:
    (tmp_path / "clumsy.py").write_text(CLUMSY)
    benchmark = RemoteBenchmark("clumsy", f"{tmp_path / 'clumsy.py'}:BENCHMARK", version="1")
    yield benchmark
    await benchmark.aclose()


@pytest.mark.parametrize("name", ["set", "date", "huge"])
async def test_what_is_not_json_fails_its_request_alone(clumsy: RemoteBenchmark, name: str) -> None:
    good, bad = await clumsy.open("fine"), await clumsy.open(name)
    pid = clumsy.worker_pid
    with pytest.raises(RemoteFailureError, match="snapshot returned what is not JSON: "):
        await bad.snapshot()
    assert await good.snapshot() == "fine" and clumsy.worker_pid == pid


@pytest.mark.parametrize(("name", "words"), [("lost", "CancelledError"), ("panic", "BaseException: torn")])
async def test_cancellation_of_a_worlds_own_task_is_an_error_of_its_tool(
    clumsy: RemoteBenchmark, name: str, words: str
) -> None:
    waiting, other = WorldSession(await clumsy.open("fine")), WorldSession(await clumsy.open("fine"))
    texts: list[str] = []

    async def wait() -> None:
        texts.append((await waiting.call("wait", {})).text)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        result = await other.call(name, {})
        assert result.is_error and words in result.text
        assert (await other.call("release", {})).text == "released"
    assert texts == ["waited"]


async def test_a_world_without_tools_is_closed(
    clumsy: RemoteBenchmark, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(RemoteFailureError, match="no tools"):
        await clumsy.open("toolless")
    assert (await clumsy.open("fine")).tools()
    await clumsy.aclose()
    assert "toolless closed" in capfd.readouterr().err


class Ending:
    """A sandbox that its first command exceeds a limit of, as the trusted side's do."""

    over = ""
    enforced = Enforced(
        engine="bwrap", version="1", user="own-namespace", network="none", memory="measured",
        cpus="affinity", base="host",
    )  # fmt: skip

    async def run(self, command: str, **more: object) -> None:
        self.over = "memory: more than 2048 MiB"
        raise SandboxEndedError(f"the sandbox was ended: {self.over}")


class Lends:
    async def ask(self, *more: object) -> None: ...

    async def sandbox(self, spec: SandboxSpec) -> Ending:
        return Ending()


async def test_an_ended_sandbox_ends_the_episode(clumsy: RemoteBenchmark) -> None:
    world = await open_world(clumsy, "shell", seed=0, host=Lends())  # type: ignore[arg-type]
    first, second = [await world.call("bash", {"command": "hog"}) for _ in range(2)]
    assert first.is_error and "was ended: memory" in first.text and not first.done
    assert second.done and second.text == "The machine was stopped: memory: more than 2048 MiB"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (
            "import math\nBENCHMARK = math.squareroot(4)",
            "AttributeError: module 'math' has no attribute 'squ",
        ),
        ("BENCHMARK = open('tasks.json')", "FileNotFoundError: .*tasks.json"),
    ],
)
async def test_a_slip_in_the_benchmarks_file_is_shown_as_it_is(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], source: str, words: str
) -> None:
    (tmp_path / "mine.py").write_text(source)
    benchmark = RemoteBenchmark("mine", f"{tmp_path / 'mine.py'}:BENCHMARK", version="1")
    with pytest.raises(RemoteFailureError, match=words):
        benchmark.tools()
    assert f'{tmp_path / "mine.py"}", line' in capfd.readouterr().err


async def test_a_benchmark_that_takes_no_folder_says_so(clumsy: RemoteBenchmark, tmp_path: Path) -> None:
    target = f"{tmp_path / 'clumsy.py'}:BENCHMARK?{tmp_path}"
    with pytest.raises(WrongUseError, match="works on no folder"):
        RemoteBenchmark("clumsy", target, version="1").tools()


PARENT = """
import subprocess, sys
from mcp_bench.servers.remote import RemoteBenchmark
remote = RemoteBenchmark("nurse", sys.argv[1], version="1")
try:
    remote.task("x")
except Exception as error:
    print(error, flush=True)
input()
"""
NURSE = """
import subprocess
from mcp_bench.servers.errors import BenchError
CHILD = subprocess.Popen(["sleep", "1000"])

class Nurse:
    name, version = "nurse", "1"

    def task(self, name):
        raise BenchError(str(CHILD.pid))

    async def aclose(self): ...

BENCHMARK = Nurse()
"""


async def test_children_of_a_benchmark_end_with_a_killed_parent(tmp_path: Path) -> None:
    (tmp_path / "nurse.py").write_text(NURSE)
    command = [sys.executable, "-c", PARENT, f"{tmp_path / 'nurse.py'}:BENCHMARK"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        ending = os.pidfd_open(child)
        parent.kill()
    try:
        with anyio.fail_after(20):
            await anyio.wait_readable(ending)
    except TimeoutError:
        signal.pidfd_send_signal(ending, signal.SIGKILL)
        raise
    finally:
        os.close(ending)
