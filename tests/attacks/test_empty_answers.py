"""No task accepts an empty answer without work."""

from __future__ import annotations

from collections.abc import Iterator

import anyio
import pytest

from mcp_bench.servers.agentdojo import BENCHMARK
from mcp_bench.servers.remote import RemoteBenchmark

pytestmark = [pytest.mark.anyio, pytest.mark.system]

QUICK = ("", "null", "NaN")
NOTHING = (
    *QUICK,
    " ",
    "\n\t",
    "None",
    "nan",
    "undefined",
    "{}",
    "[]",
    "0",
    "-1",
    "inf",
    "true",
    "\x00",
    "\ufffd",
)


@pytest.fixture(scope="module")
def dojo() -> Iterator[RemoteBenchmark]:
    yield BENCHMARK
    anyio.run(BENCHMARK.aclose)


@pytest.mark.parametrize(
    "answers", [QUICK, pytest.param(NOTHING, marks=pytest.mark.full)], ids=["few", "all"]
)
async def test_no_task_accepts_an_empty_answer(dojo: RemoteBenchmark, answers: tuple[str, ...]) -> None:
    taken = []
    tasks = list(dojo.tasks("all"))
    for task in tasks if answers == NOTHING else tasks[::16]:
        world = await dojo.open(task.id)
        for answer in answers:
            grade = await world.grade(answer)
            if grade.strict or grade.partial == 1:
                taken.append((task.id, answer))
        await world.close()
    assert tasks and taken == []
