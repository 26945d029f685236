"""codeworld: solved by its solutions over real MCP, by nothing else, and the same from the same id."""

from __future__ import annotations

from itertools import islice

import pytest

from mcp_bench.bridge.sandbox.engine import engines
from mcp_bench.bridge.sandbox.runners.episode_sandboxes import EpisodeSandboxes
from mcp_bench.servers.codeworld import BENCHMARK
from mcp_bench.servers.codeworld.case import Case, Check, python_check
from mcp_bench.servers.codeworld.families import FAMILIES, HELD_OUT
from mcp_bench.servers.codeworld.world import CodeWorldWorld
from mcp_bench.servers.grading import Grade
from mcp_bench.servers.sandbox import SandboxSpec
from tests.support.requirements import needs

BWRAP = engines()["bwrap"]
pytestmark = [pytest.mark.system, needs("bwrap", BWRAP.support().works, BWRAP.support().detail)]


def ids(levels: tuple[int, ...], numbers: range) -> list[str]:
    """Return tasks of all families, those that train has from dev."""
    split = {family: "test" if family in HELD_OUT else "dev" for family in FAMILIES}
    return [
        f"{family}.{level}.{split[family]}.{number}"
        for family in FAMILIES
        for level in levels
        for number in numbers
    ]


def record(bench, agent: str, tasks: list[str]) -> None:
    named = [word for task in tasks for word in ("--task", task)]
    bench.run("record", "--agent", agent, "--benchmark", "codeworld", "--jobs", "2", *named)


@pytest.mark.parametrize(("agent", "score"), [("oracle", 1), ("noop", 0)])
@pytest.mark.parametrize(
    ("levels", "numbers"), [((2,), range(1)), pytest.param((1, 2, 3), range(20), marks=pytest.mark.full)]
)
def test_solutions_solve_and_doing_nothing_does_not(
    bench, agent, score, levels: tuple[int, ...], numbers: range
) -> None:
    tasks = ids(levels, numbers)
    record(bench, agent, tasks)
    assert [(row["strict"], row["partial"]) for row in bench.grades()] == [(score, score)] * len(tasks)


BUSY = """
import os, time
def busy(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end: pass
def answer():
    ends = [os.pipe() for _ in range(2)]
    for read, write in ends:
        if not os.fork():
            os.setsid()
            busy(0.7)
            os.write(write, b"x")
            time.sleep(600)
    return sum(len(os.read(read, 1)) for read, write in ends)
"""
"""Two processes that outlive their parent, each below a limit of 1 s."""


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("def answer():\n    return 2\n", ""),
        (BUSY, "its time was over (1 s of processors"),
        (
            BUSY.replace(
                "import os, time", "import os, signal, time\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)"
            ),
            "processor",
        ),
        ("import os\nos.write(2, b'2')\nos.kill(os.getppid(), 9)\nos._exit(0)\n", "signal 9"),
    ],
)
async def test_processors_are_counted_over_all_processes(program: str, why: str) -> None:
    check = python_check("quick", "from own import answer\nprint(answer())", 2, processor_seconds=1)
    [found] = (await checked(program, check)).assertions
    assert found.passed == (not why)
    assert why in found.detail


@pytest.mark.anyio
async def test_a_check_leaves_nothing_to_the_next_one() -> None:
    """No file, in whatever folder: the agent's code runs in the first, and could prepare the second."""
    first = python_check("first", "import own\nown.keep()\nprint(own.kept())", 3)
    second = python_check("second", "import own\nprint(own.kept())", 0)
    program = (
        "import os\nPLACES = ['/work/kept', '/tmp/kept', '/var/tmp/kept']\n"
        "def keep():\n    for place in PLACES: open(place, 'w').close()\n"
        "def kept():\n    return sum(map(os.path.exists, PLACES))\n"
    )
    assert [one.passed for one in (await checked(program, first, second)).assertions] == [True, True]


async def checked(program: str, *checks: Check) -> Grade:
    """Return the grade of an agent that leaves a program."""
    case = Case("", {"own.py": program}, checks, "")
    lent = EpisodeSandboxes()
    try:
        return await (await CodeWorldWorld.opened(await lent.start(SandboxSpec()), case, "1")).grade("")
    finally:
        await lent.aclose()


def test_tasks_follow_from_their_ids() -> None:
    for task in ids((1, 2, 3), range(2)):
        assert BENCHMARK.task(task) == BENCHMARK.task(task)
        assert BENCHMARK.reference(task) == BENCHMARK.reference(task)
    prompts = {BENCHMARK.task(task).prompt for task in ids((3,), range(2))}
    assert len(prompts) > len(FAMILIES)


def test_held_out_families_are_in_test_alone() -> None:
    for split in ("train", "dev"):
        found = {task.domain for task in islice(BENCHMARK.tasks(split), 24)}
        assert found == set(FAMILIES) - HELD_OUT
    assert {task.domain for task in BENCHMARK.tasks("test", 36)} == HELD_OUT
