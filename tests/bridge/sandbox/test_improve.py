"""Improvement tasks in real sandboxes: the reference is strict, doing nothing and cheating earn nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import anyio
import pytest

from mcp_bench.bridge.sandbox.engine import engines
from mcp_bench.bridge.sandbox.episode_sandboxes import EpisodeSandboxes
from mcp_bench.servers.contracts import ChatMessage, World
from mcp_bench.servers.errors import BenchError
from mcp_bench.servers.grading import Grade
from mcp_bench.servers.improve.benchmark import Improve
from mcp_bench.servers.improve.estimate import BASELINE as BASE
from mcp_bench.servers.improve.task_file import read_task
from mcp_bench.servers.improve.world import ImproveWorld
from mcp_bench.servers.sandbox import Answers, Sandbox, SandboxError, SandboxSpec
from tests.support.improve_task import REFERENCE, TASK, write_task
from tests.support.requirements import needs

BWRAP = engines()["bwrap"]
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.component,
    needs("bwrap", BWRAP.support().works, BWRAP.support().detail),
]


class OnlySandboxes:
    """A host that lends sandboxes."""

    def __init__(self) -> None:
        self.lent = EpisodeSandboxes()

    async def ask(self, *_: object) -> ChatMessage:
        raise NotImplementedError

    async def sandbox(self, spec: SandboxSpec) -> Sandbox:
        return await self.lent.start(spec)


@asynccontextmanager
async def opened(benchmark: Improve, task_id: str) -> AsyncIterator[World]:
    host = OnlySandboxes()
    try:
        with anyio.fail_after(300):
            yield await benchmark.open(task_id, seed=0, host=host)
    finally:
        await host.lent.aclose()


async def played(benchmark: Improve, task_id: str) -> Grade:
    """Return the grade of the reference."""
    async with opened(benchmark, task_id) as world:
        for call in benchmark.reference(task_id).calls:
            assert not (await world.call(call.name, dict(call.arguments))).is_error
        return await world.grade("")


async def graded(world: World, program: str) -> Grade:
    await world.call("write", {"path": "target.py", "text": program})
    await world.call("submit", {})
    return await world.grade("")


async def test_an_attempt_from_reading_to_the_grade(tmp_path: Path) -> None:
    benchmark = Improve(write_task(tmp_path))
    async with opened(benchmark, "sums.train.0") as world:

        async def said(name: str, **arguments: str | int) -> str:
            return (await world.call(name, dict(arguments))).text

        assert await said("read") == "target.py (5 lines)"
        assert (await said("read", path="target.py", first=2, lines=1)) == "    total = 0\n"
        assert "did you mean target.py?" in await said("read", path="targt.py")
        assert "0 times" in await said("edit", path="target.py", old="x", new="y")
        assert "60000 are allowed" in await said("write", path="target.py", text="#" * 70_000)
        assert "cannot be told from the baseline" in await said("run") or "version 0" in await said("history")
        await said("edit", path="target.py", old="range(n)", new="range(n")
        assert "syntax" in await said("run", note="broken")
        assert "crashed before" in await said("run")
        await said("write", path="target.py", text="def solve(n):\n    return sum(i * i for i in range(n))\n")
        await said("run", note="generator")
        await said("write", path="target.py", text="solve = lambda n: (n - 1) * n * (2 * n - 1) // 6")
        assert "It is better than the baseline." in await said("run", note="formula")
        assert "All 4 runs are used" in await said("run")
        assert (await said("history", order="best", limit=1)).endswith("(formula)")
        assert "There is no version 9" in await said("restore", version=9)
        assert "version 0" in await said("restore", version=0)
        grade = await world.grade("")  # nothing was submitted: the best version counts
    assert (grade.partial, grade.strict) == (1.0, True)
    assert grade.score is not None
    assert grade.score.value < (grade.score.baseline or 0)
    assert grade.metrics["runs"] == 4
    assert grade.metrics["crashes"] == 1


async def test_doing_nothing_earns_nothing(tmp_path: Path) -> None:
    benchmark = Improve(write_task(tmp_path))
    async with opened(benchmark, "sums.train.1") as world:
        grade = await world.grade("")
    assert (grade.partial, grade.strict) == (0.0, False)
    async with opened(benchmark, "sums.train.1") as world:
        same = await graded(world, "# only a comment\n" + (tmp_path / "sums/target/target.py").read_text())
    assert same.partial < 0.1  # what it was measured at is chance


LOOP = "total = 0\n    for number in range(n):\n        total += number * number\n    return total\n"
CHEATS = {
    "a fixed answer": "def solve(n):\n    return 8999550005000",
    "an answer kept from another input": f"kept = []\ndef solve(n):\n    if kept: return kept[0]\n    {LOOP.replace('return total', 'kept.append(total); return total')}",
    "patched clocks": f"import time\ntime.process_time = time.monotonic = time.perf_counter = lambda: 0.0\ndef solve(n):\n    {LOOP}",
    "work in a child": f"import os\ndef work(n):\n    {LOOP}\ndef solve(n):\n    r, w = os.pipe()\n    if not os.fork():\n        os.write(w, str(work(n)).encode()); os._exit(0)\n    return int(os.read(r, 99))",
    "work in a thread": "import threading\ndef solve(n):\n    out = []\n    t = threading.Thread(target=lambda: out.append(sum(i * i for i in range(n))))\n    t.start(); t.join(); return out[0]",
    "a changed driver": "import os\ndef solve(n):\n    open('/driver/mcp_bench/servers/improve/inside/driver.py', 'w').write('')\n    return 0",
    "an answer in the driver's place": "import struct, sys\ndef solve(n):\n    data = struct.pack('<Q', 2) + b'[]'\n    import os\n    for fd in range(3, 9):\n        try: os.write(fd, data)\n        except OSError: pass\n    return 0",
    "leaving with success": "import os\ndef solve(n):\n    os._exit(0)",
    "leaving while loading": "import sys\nsys.exit(0)",
    "a hanging answer": "import time\ndef solve(n):\n    time.sleep(60)",
    "all memory": "def solve(n):\n    held = bytearray(2 << 30)\n    held[::4096] = bytes(len(held[::4096]))\n    return len(held)",
    "all disk": "def solve(n):\n    with open('/tmp/x', 'wb') as f:\n        for _ in range(2000): f.write(bytes(1 << 20))\n    return 0",
    "an endless answer": "def solve(n):\n    return 'x' * (1 << 27)",
    "a pickle": "import pickle\ndef solve(n):\n    return pickle.dumps(n)",
    "an object that looks equal": "class Any:\n    def __eq__(self, other): return True\ndef solve(n):\n    return Any()",
    "a changed packer": "from mcp_bench.servers.improve.inside import values\nvalues.pack = lambda value: b'junk'\ndef solve(n):\n    return 0",
    "reading the scorer": "def solve(n):\n    import glob\n    return open((glob.glob('/**/scorer.py', recursive=True) + ['/none'])[0]).read()",
    "killing everything": "import os\ndef solve(n):\n    os.kill(-1, 9)",
    "an array that cannot be read": "def solve(n):\n    from mcp_bench.servers.improve.inside import values\n    values.pack = lambda v: values.LENGTH.pack(2) + values.LENGTH.pack(22) + values.LENGTH.pack(4) + b'{\"value\":{\"$array\":0}}'[:22] + b'PK\\3\\4'\n    return 0",
    "a number that cannot be compared": "def solve(n):\n    return 10 ** 400",
    "an end that comes later": "import os, signal\nsignal.signal(signal.SIGALRM, lambda *_: os.kill(-1, 9))\ndef solve(n):\n    signal.setitimer(signal.ITIMER_REAL, 0.05)\n    return 0",
    "work while loading": f"import time\nend = time.process_time() + 2\nwhile time.process_time() < end: pass\ndef solve(n):\n    {LOOP}",
    "a true answer as text": f"def work(n):\n    {LOOP}\ndef solve(n):\n    return str(work(n))",
}  # fmt: skip


QUICK = (
    "work in a child",
    "an answer in the driver's place",
    "leaving with success",
    "a changed packer",
    "an array that cannot be read",
    "an end that comes later",
)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.full]) for name in CHEATS]
)
async def test_cheating_earns_nothing(tmp_path: Path, name: str) -> None:
    benchmark = Improve(write_task(tmp_path))
    async with opened(benchmark, "sums.train.0") as world:
        grade = await graded(world, CHEATS[name])
        assert grade.partial < (0.1 if name == "patched clocks" else 0.001), grade


async def test_files_of_an_earlier_run_are_gone(tmp_path: Path) -> None:
    """A candidate cannot keep what it computed for a later measurement."""
    program = "import os\nassert not os.path.exists('/tmp/kept')\nopen('/tmp/kept', 'w').close()\n"
    benchmark = Improve(write_task(tmp_path))
    async with opened(benchmark, "sums.train.0") as world:
        await world.call(
            "write", {"path": "target.py", "text": program + "def solve(n): return (n-1)*n*(2*n-1)//6"}
        )
        for _ in range(2):
            assert "better" in (await world.call("run", {})).text
        await world.call("submit", {})
        assert (await world.grade("")).strict


async def test_a_failing_baseline_is_not_the_agents_fault(tmp_path: Path) -> None:
    benchmark = Improve(write_task(tmp_path, target="def solve(n):\n    raise OSError('no')\n"))
    async with opened(benchmark, "sums.train.0") as world:
        with pytest.raises(BenchError, match=r"(?s)the baseline failed.*OSError: no"):
            await world.call("run", {})


async def test_a_failing_scorer_is_not_the_agents_fault(tmp_path: Path) -> None:
    benchmark = Improve(write_task(tmp_path, scorer="def question(rng, part, settings):\n    return 1 / 0\n"))
    async with opened(benchmark, "sums.train.0") as world:
        with pytest.raises(BenchError, match=r"scorer.py failed: ZeroDivisionError"):
            await world.call("run", {})


class FullTable:
    """A stand-in for a sandbox on a machine that has no room for a process."""

    async def renew(self, *_: object, **__: object) -> None:
        return

    async def start(self, *_: object, **__: object) -> Answers:
        raise SandboxError("the command: Resource temporarily unavailable")


async def test_a_full_process_table_is_not_the_agents_fault(tmp_path: Path) -> None:
    """fork(2) fails with EAGAIN: no crash of the candidate, and no run is counted as one."""
    task = read_task(write_task(tmp_path))
    full = cast("Sandbox", FullTable())
    world = ImproveWorld(task, "sums.train.0", 0, dict.fromkeys((BASE, "candidate", "reference"), full))
    await world.call("write", {"path": "target.py", "text": REFERENCE})
    with pytest.raises(SandboxError, match="temporarily unavailable"):
        await world.call("run", {})
    assert world.crashes == 0


@pytest.mark.parametrize("task_id", ["alignment.train.0", "places.train.0"])
async def test_references_are_strict(task_id: str) -> None:
    assert (await played(Improve(), task_id)).strict


@pytest.mark.full
@pytest.mark.parametrize(
    "task_id", [task.id for task in Improve().tasks("all") if task.id.endswith((".0", ".1"))]
)
async def test_all_references_are_strict(task_id: str) -> None:
    assert (await played(Improve(), task_id)).strict


@pytest.mark.full
async def test_the_baseline_is_not_better_than_itself(tmp_path: Path) -> None:
    """Of 60 gradings of the baseline against itself, at most one says that it is better."""
    benchmark = Improve(write_task(tmp_path, task=TASK))
    better = 0
    for number in range(60):
        async with opened(benchmark, "sums.train.2") as world:
            program = (tmp_path / "sums/target/target.py").read_text() + f"# {number}\n"
            better += (await graded(world, program)).partial > 0
    assert better <= 1


FIXED_PAIRS = TASK.replace("pairs: [9, 15]", "pairs: [9, 9]")


async def test_attempts_of_a_home_pool_their_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the task says so. Another program, and the held-out data, have samples of their own."""
    monkeypatch.setenv("MCP_BENCH_HOME", str(tmp_path / "home"))
    benchmark = Improve(write_task(tmp_path, task=FIXED_PAIRS + "share: home\n"))
    numbers = []
    for _ in range(2):
        async with opened(benchmark, "sums.train.0") as world:
            await world.call("write", {"path": "target.py", "text": REFERENCE})
            await world.call("run", {})
            state = await world.snapshot()
            assert isinstance(state, dict)
            numbers.append([len(one["samples"].get("candidate", ())) for one in state["versions"]])
    assert numbers == [[0, 9], [0, 18]]


async def test_processor_seconds_are_a_budget(tmp_path: Path) -> None:
    task = TASK.replace("{runs: 4}", "{runs: 4, processor_seconds: 0.01}")
    async with opened(Improve(write_task(tmp_path, task=task)), "sums.train.0") as world:
        assert "3 of 4 runs are left" in (await world.call("run", {})).text
        assert "All 0.01 s of processors are used" in (await world.call("run", {})).text
