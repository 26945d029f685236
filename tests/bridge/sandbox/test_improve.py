"""Improvement tasks in real sandboxes: the reference counts, doing nothing and cheating earn nothing."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import anyio
import pytest

from mcp_bench.bridge.sandbox.engine import engines
from mcp_bench.bridge.sandbox.runners.episode_sandboxes import EpisodeSandboxes
from mcp_bench.servers.contracts import ChatMessage, World
from mcp_bench.servers.errors import BenchError
from mcp_bench.servers.grading import Grade
from mcp_bench.servers.improve.benchmark import Improve
from mcp_bench.servers.improve.estimate import BASELINE as BASE
from mcp_bench.servers.improve.measure import CLOCKED
from mcp_bench.servers.improve.task_file import read_task
from mcp_bench.servers.improve.world import ImproveWorld
from mcp_bench.servers.needs import unmet
from mcp_bench.servers.progress import reporting_to
from mcp_bench.servers.sandbox import Answers, Sandbox, SandboxError, SandboxSpec
from tests.support.improvement.cheats import CHEATS, QUICK
from tests.support.improvement.kinds import KINDS, write_kind
from tests.support.improvement.small_task import REFERENCE, TASK, write_task
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
async def opened(benchmark: Improve, task_id: str, seconds: float = 300) -> AsyncIterator[World]:
    host = OnlySandboxes()
    try:
        with anyio.fail_after(seconds):
            yield await benchmark.open(task_id, seed=0, host=host)
    finally:
        await host.lent.aclose()


async def played(benchmark: Improve, task_id: str) -> Grade:
    """Return the grade of the reference."""
    async with opened(benchmark, task_id) as world:
        for call in benchmark.reference(task_id).calls:
            assert not (await world.call(call.name, dict(call.arguments))).is_error
        return await world.grade("")


async def assert_reference_counts(benchmark: Improve, task_id: str) -> None:
    """The reference is strict; where clocks decide, a busy machine can blur the last part of it."""
    grade = await played(benchmark, task_id)
    by_clock = benchmark.folders[task_id.split(".")[0]].definition.experiment.kind in CLOCKED
    assert grade.strict or (by_clock and grade.partial > 0.5), grade


async def graded(world: World, program: str, path: str = "target.py") -> Grade:
    await world.call("write", {"path": path, "text": program})
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
        assert "Version 0: time" in await said("run")
        assert re.fullmatch(r"version 0: [0-9.e-]+ \(the baseline\)", await said("history"))
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
    assert len(grade.submissions) == 4
    assert grade.submissions[-1].value > 0.5


async def test_doing_nothing_earns_nothing(tmp_path: Path) -> None:
    benchmark = Improve(write_task(tmp_path))
    async with opened(benchmark, "sums.train.1") as world:
        grade = await world.grade("")
    assert (grade.partial, grade.strict) == (0.0, False)
    async with opened(benchmark, "sums.train.1") as world:
        same = await graded(world, "# only a comment\n" + (tmp_path / "sums/target/target.py").read_text())
    assert same.partial < 0.1  # what it was measured at is chance


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        pytest.param(kind, name, marks=[] if name in QUICK[kind] else [pytest.mark.full])
        for kind, cheats in CHEATS.items()
        for name in cheats
    ],
)
async def test_cheating_earns_nothing(tmp_path: Path, kind: str, name: str) -> None:
    benchmark = Improve(small_task(tmp_path, kind))
    [task] = benchmark.folders.values()
    async with opened(benchmark, f"{task.definition.name}.train.0") as world:
        grade = await graded(world, CHEATS[kind][name], task.definition.target[0])
        assert grade.partial < (0.1 if name == "patched clocks" else 0.001), grade


@pytest.mark.parametrize("place", ["/tmp/kept", "/task/kept", "/data/kept", "/dev/shm/kept", "/kept"])
async def test_a_timed_candidate_can_write_no_file(tmp_path: Path, place: str) -> None:
    """It cannot keep for the next process, or the next measurement, what it computed."""
    program = f"open({place!r}, 'w').close()\n{REFERENCE}"
    async with opened(Improve(write_task(tmp_path)), "sums.train.0") as world:
        await world.call("write", {"path": "target.py", "text": program})
        found = await world.call("run", {})
        assert found.is_error
        assert "Error: [Errno" in found.text, found.text


async def test_loading_counts_where_a_task_says_so(tmp_path: Path) -> None:
    """Otherwise a program could train while it loads, up to three times as long as the baseline loads."""
    program = (
        "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass\n" + REFERENCE
    )
    said = []
    for whole in ("false", "true"):
        task = TASK.replace("kind: call,", f"kind: call, whole: {whole},").replace("[9, 15]", "[7, 7]")
        folder = write_task(tmp_path / whole, task=task)
        async with opened(Improve(folder), "sums.train.0") as world:
            await world.call("write", {"path": "target.py", "text": program})
            said.append((await world.call("run", {})).text)
    assert "better than the baseline" in said[0]
    assert "worse than the baseline" in said[1]


async def test_where_all_processes_count_none_works_for_the_next(tmp_path: Path) -> None:
    """It would be counted with the process that started it, and that one's time is over."""
    task = TASK.replace("kind: call,", "kind: call, processes: true,").replace("[9, 15]", "[6, 6]")
    program = (
        "import os, time\ndef solve(n):\n    if not os.fork():\n        os.setsid()\n        time.sleep(600)\n"
        "    others = [p for p in os.listdir('/proc') if p.isdecimal()]\n"
        "    assert len(others) <= 5, others\n    return (n - 1) * n * (2 * n - 1) // 6\n"
    )
    async with opened(Improve(write_task(tmp_path, task=task)), "sums.train.0") as world:
        await world.call("write", {"path": "target.py", "text": program})
        found = await world.call("run", {})
        assert not found.is_error, found.text


async def test_for_a_gpu_the_wall_clock_counts_and_nothing_runs_on(tmp_path: Path) -> None:
    """A program that sleeps is slow, and a process that it left behind is gone before the next one is timed.

    No GPU is needed for that.
    """
    task = TASK.replace("kind: call,", "kind: call, gpu: true, processes: true,").replace("[9, 15]", "[6, 6]")
    program = (
        "import os, time\ndef solve(n):\n    if not os.fork():\n        os.setsid()\n        time.sleep(600)\n"
        "    time.sleep(0.2)\n    others = [p for p in os.listdir('/proc') if p.isdecimal()]\n"
        "    assert len(others) <= 5, others\n    return (n - 1) * n * (2 * n - 1) // 6\n"
    )
    benchmark = Improve(write_task(tmp_path, task=task))
    async with opened(benchmark, "sums.train.0") as world:
        await world.call("write", {"path": "target.py", "text": program})
        said = (await world.call("run", {})).text
        assert "It is worse than the baseline" in said, said
        await graded(world, REFERENCE)
        state = await world.snapshot()
        assert isinstance(state, dict)
        assert state["clock"] == "wall"


async def test_a_timed_candidate_can_keep_no_shared_memory(tmp_path: Path) -> None:
    program = (
        "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n"
        "assert libc.shmget(77, 4096, 0o1600) < 0 and ctypes.get_errno() == 1\n"
        "assert libc.msgget(77, 0o1600) < 0 and libc.semget(77, 1, 0o1600) < 0\n"
    )
    async with opened(Improve(write_task(tmp_path)), "sums.train.0") as world:
        await world.call("write", {"path": "target.py", "text": program + REFERENCE})
        found = await world.call("run", {})
        assert not found.is_error, found.text


@pytest.mark.parametrize("kind", [*KINDS])
async def test_the_reference_of_each_kind_counts(tmp_path: Path, kind: str) -> None:
    benchmark = Improve(small_task(tmp_path, kind))
    [name] = benchmark.folders
    await assert_reference_counts(benchmark, f"{name}.train.0")


def small_task(place: Path, kind: str) -> Path:
    return write_task(place) if kind == "call" else write_kind(place, kind)


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


async def test_a_scorer_without_items_is_not_the_agents_fault(tmp_path: Path) -> None:
    folder = write_kind(tmp_path, "codec")
    file = folder / "task.yaml"
    file.write_text(file.read_text().replace("{files: 8}", "{files: 0}"))
    async with opened(Improve(folder), "small.train.0") as world:
        with pytest.raises(BenchError, match=r"scorer.py gave no items for 'search'"):
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
async def test_references_count(task_id: str) -> None:
    await assert_reference_counts(Improve(), task_id)


@pytest.mark.full
@pytest.mark.parametrize(
    "task_id",
    [
        pytest.param(task.id, marks=needs("package", not unmet(task.needs), "; ".join(unmet(task.needs))))
        for task in Improve().tasks("all")
        if task.id.endswith((".0", ".1"))
    ],
)
async def test_all_references_count(task_id: str) -> None:
    await assert_reference_counts(Improve(), task_id)


class ScriptedHost(OnlySandboxes):
    """A host whose model repeats the last word of the prompt."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[object, ...]] = []

    async def ask(self, *given: object) -> ChatMessage:
        self.asked.append(given)
        messages = given[1]
        assert isinstance(messages, list)
        return ChatMessage(role="assistant", content=messages[0].content.split()[-1])


async def test_a_prompt_goes_to_the_operators_model(tmp_path: Path) -> None:
    """Without a `model.py`, the model of a role answers, and the task needs it."""
    folder = write_kind(tmp_path, "text")
    (folder / "model.py").unlink()
    (folder / "scorer.py").write_text(
        "def cases(rng, part, settings):\n    return [(f'say {n}', str(n)) for n in range(9)]\n\n\n"
        "def loss(label, answer):\n    return float(label == answer)\n"
    )
    (folder / "target/prompt.txt").write_text("{input} x")
    (folder / "reference/prompt.txt").write_text("{input}")
    benchmark = Improve(folder)
    assert benchmark.task("small.train.0").needs == ("model:user",)
    host = ScriptedHost()
    world = await benchmark.open("small.train.0", seed=0, host=host)
    said = (await world.call("run", {})).text
    assert "accuracy 0 " in said
    await world.call("write", {"path": "prompt.txt", "text": "no input"})
    assert "the prompt needs the place of the input: {input}" in (await world.call("run", {})).text
    await world.call("write", {"path": "prompt.txt", "text": "{input} y {input}"})
    assert "accuracy 1 " in (await world.call("run", {})).text
    assert (await graded(world, "{input}", "prompt.txt")).strict
    assert {given[0] for given in host.asked} == {"user"}
    assert len(host.asked) == 9 * (2 + 1 + 3), "while searching, the baseline is asked once"


@pytest.mark.full
@pytest.mark.parametrize("kind", ["call", "sql"])
async def test_the_baseline_is_not_better_than_itself(tmp_path: Path, kind: str) -> None:
    """Of 60 gradings of the baseline against itself, at most one says that it is better."""
    benchmark = Improve(small_task(tmp_path, kind))
    [task] = benchmark.folders.values()
    [(path, baseline)] = task.baseline.items()
    better = 0
    for number in range(60):
        async with opened(benchmark, f"{task.definition.name}.train.1") as world:
            same = f"{baseline}{'--' if kind == 'sql' else '#'} {number}\n"
            better += (await graded(world, same, path)).partial > 0
    assert better <= 1


FIXED_PAIRS = TASK.replace("pairs: [9, 15]", "pairs: [9, 9]")


@pytest.mark.parametrize(("kind", "steps"), [("call", 9), ("codec", 2)])
async def test_a_run_reports_its_progress(tmp_path: Path, kind: str, steps: int) -> None:
    folder = write_task(tmp_path, task=FIXED_PAIRS) if kind == "call" else write_kind(tmp_path, kind)
    benchmark = Improve(folder)
    seen = []

    async def report(done: float, total: float | None, message: str | None) -> None:
        seen.append((done, total))

    async with opened(benchmark, next(benchmark.tasks("train")).id) as world:
        with reporting_to(report):
            await world.call("run", {})
    assert seen == [(number + 1, steps) for number in range(steps)]


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
