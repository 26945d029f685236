"""Tools of worlds in a worker: sent once for each set, and right for each world whatever order answers have."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from mcp_bench.servers.remote import RemoteBenchmark
from mcp_bench.servers.remote.connection import MOST_TOOLSETS, WorkerConnection

pytestmark = [pytest.mark.component, pytest.mark.anyio]

BENCHMARK = """
from mcp_bench.servers.sdk import SimpleBenchmark, SimpleWorld, Task, ToolSpec

def spec(number):
    return ToolSpec(name=f"tool_{number}", description="", input_schema={"type": "object"})

SHARED = {}

class World(SimpleWorld):
    def __init__(self, kind, number):
        # a world of the kind `own` has objects that no other world has
        self.toolset = (spec(number) if kind == "own" else SHARED.setdefault(number, spec(number)),)

class Sets(SimpleBenchmark):
    name = "sets"

    def ids(self, split):
        return []

    def make_task(self, task_id):
        return Task(id=task_id, benchmark="sets", prompt="Go.", split="test", domain="d")

    def make_world(self, task_id, seed):
        kind, _, number = task_id.partition("-")
        return World(kind, int(number))

BENCHMARK = Sets()
"""


@pytest.fixture
async def sets(tmp_path: Path) -> AsyncIterator[RemoteBenchmark]:
    (tmp_path / "sets.py").write_text(BENCHMARK)
    found = RemoteBenchmark("sets", f"{tmp_path / 'sets.py'}:BENCHMARK", version="1", python=sys.executable)
    yield found
    await found.aclose()


@pytest.mark.parametrize("kind", ["shared", "own"])
@pytest.mark.parametrize("different", [1, 3, MOST_TOOLSETS + 1])
async def test_every_world_has_its_own_tools(sets: RemoteBenchmark, kind: str, different: int) -> None:
    seen: dict[int, str] = {}

    async def look(number: int) -> None:
        world = await sets.open(f"{kind}-{number % different}")
        seen[number] = world.tools()[0].name
        await world.close()

    for _ in range(2):
        async with anyio.create_task_group() as tasks:
            for number in range(2 * different):
                tasks.start_soon(look, number)
    assert seen == {number: f"tool_{number % different}" for number in range(2 * different)}


@pytest.mark.parametrize("kind", ["shared", "own"])
async def test_equal_tools_are_sent_once(
    sets: RemoteBenchmark, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    read: list[object] = []
    whole = WorkerConnection.specs
    monkeypatch.setattr(
        WorkerConnection, "specs", lambda self, tools: (read.append(tools), whole(self, tools))[1]
    )
    for number in (0, 0, 1, 0, 1):
        await (await sets.open(f"{kind}-{number}")).close()
    assert len(read) == 2


async def test_a_cancelled_world_takes_no_tools_with_it(sets: RemoteBenchmark) -> None:
    """The answer that has the tools is dropped; the next world has them all the same."""
    await (await sets.open("shared-0")).close()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await sets.open("shared-1")
    assert (await sets.open("shared-1")).tools()[0].name == "tool_1"
