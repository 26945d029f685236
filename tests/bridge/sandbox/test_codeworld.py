"""codeworld: solved by its solutions over real MCP, by nothing else, and the same from the same id."""

from __future__ import annotations

from itertools import islice

import pytest

from mcp_bench.bridge.sandbox.engine import engines
from mcp_bench.servers.codeworld import BENCHMARK
from mcp_bench.servers.codeworld.families import FAMILIES, HELD_OUT
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
