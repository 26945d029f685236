"""BFCL's multi-turn tasks over real MCP, where its package is installed (`MCP_BENCH_PYTHON_BFCL`)."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mcp_bench.bridge.episode.reply_tool import conversing
from mcp_bench.servers.adapters.remotes import BFCL
from mcp_bench.servers.contracts import Converses, Reference
from mcp_bench.servers.mcp_server.world_session import WorldSession
from tests.support.bench_commands import Bench
from tests.support.requirements import needs

pytestmark = [
    pytest.mark.system,
    needs("bfcl", BFCL.missing() is None, str(BFCL.missing())),
]

UNSOLVABLE = "multi_turn_miss_func_49"
SAMPLE = [
    f"multi_turn_{name}_{number}" for name in ("base", "miss_func", "miss_param") for number in (0, 173)
]
SAMPLE += ["multi_turn_long_context_60", "multi_turn_long_context_120"]
"""Two of each category; BFCL's own calls of scenario 173 do not match its schemas."""


def record(bench_home: Path, agent: str, *more: str) -> dict[str, Any]:
    bench = Bench(bench_home, {BFCL.python_variable: BFCL.python})
    done = bench.run("record", "--agent", agent, "--benchmark", "bfcl", "--json", *more)
    totals: dict[str, Any] = json.loads(done.stdout)
    return totals


@pytest.mark.parametrize(("agent", "strict"), [("oracle", 1.0), ("noop", 0.0)])
def test_references_pass_and_doing_nothing_fails(bench_home: Path, agent: str, strict: float) -> None:
    totals = record(bench_home, agent, *(part for task in SAMPLE for part in ("--task", task)))
    assert (totals["episodes"], totals["invalid"], totals["strict"], totals["partial"]) == (
        len(SAMPLE),
        0,
        strict,
        strict,
    )


@pytest.mark.full
@pytest.mark.parametrize(("agent", "strict", "count"), [("oracle", 1.0, 799), ("noop", 0.0, 800)])
def test_every_task_but_one_has_a_solution(bench_home: Path, agent: str, strict: float, count: int) -> None:
    totals = record(bench_home, agent, "--split", "all", "--jobs", "2")
    assert (totals["episodes"], totals["invalid"], totals["strict"], totals["partial"]) == (
        count,
        0,
        strict,
        strict,
    )


@pytest.fixture
async def worker() -> AsyncIterator[None]:
    yield
    await BFCL.aclose()


@pytest.mark.anyio
@pytest.mark.usefixtures("worker")
async def test_turns_functions_and_splits() -> None:
    """A function comes with the user's words, a late call fails its turn, and splits share no scenario."""
    world = await BFCL.open("multi_turn_miss_func_0")
    assert isinstance(world, Converses)
    assert "sort" not in {tool.name for tool in world.tools()}
    said = [await world.reply("I cannot sort.") for _ in range(3)]
    assert said[-1] == "I have updated some more functions you can choose from. What about now?"
    assert "sort" in {tool.name for tool in world.tools()}
    assert [await world.reply("") for _ in range(2)][-1] is None
    reference = BFCL.reference("multi_turn_base_0")
    assert reference is not None and BFCL.reference(UNSOLVABLE) is None
    late = Reference(calls=tuple(sorted(reference.calls, key=lambda call: call.name != "reply_to_user")))
    assert [await played(one) for one in (reference, late)] == [True, False]
    split_of: dict[str, set[str]] = {}
    for task in BFCL.tasks("all"):
        for mark in (task.id.rpartition("_")[2], task.prompt):
            split_of.setdefault(mark, set()).add(task.split)
    assert all(len(splits) == 1 for splits in split_of.values())


async def played(reference: Reference) -> bool:
    session = WorldSession(conversing(await BFCL.open("multi_turn_base_0")))
    for call in reference.calls:
        await session.call(call.name, call.arguments)
    grade = await session.world.grade("")
    await session.world.close()
    return grade.strict
