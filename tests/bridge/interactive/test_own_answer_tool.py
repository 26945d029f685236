"""A benchmark whose own `submit_answer` takes no text: it is a tool like any other, wherever it is called."""

from collections.abc import Iterable, Sequence

import anyio
import pytest

from mcp_bench.bridge.check.shortcuts import played
from mcp_bench.bridge.check.worlds import open_all
from mcp_bench.bridge.interactive.tools import AnsweredWorld
from mcp_bench.bridge.replay.replay import replay
from mcp_bench.recorder.store.episode_rows import ExecutedCall
from mcp_bench.servers.sdk import (
    AssertionResult,
    Reference,
    SimpleBenchmark,
    SimpleWorld,
    Task,
    ToolCall,
    tool,
)

pytestmark = [pytest.mark.component, pytest.mark.anyio]


class Sum(SimpleWorld):
    value: float | None = None

    @tool
    def submit_answer(self, value: float) -> str:
        """Hand in the sum."""
        self.value = value
        return "taken"

    def checks(self, answer: str) -> Sequence[AssertionResult]:
        return [
            AssertionResult(name="sum", passed=self.value == 4),
            AssertionResult(name="silent", passed=not answer),
        ]


class Sums(SimpleBenchmark):
    name = "sums"
    version = "1"
    summary = "Add two numbers."
    toolset = Sum.toolset

    def ids(self, split: str) -> Iterable[str]:
        return [f"{split}-1"]

    def make_task(self, task_id: str) -> Task | None:
        split, _, _ = task_id.partition("-")
        return Task(id=task_id, benchmark=self.name, prompt="2 + 2?", split=split, domain="sums")

    def make_world(self, task_id: str, seed: int) -> SimpleWorld:
        return Sum()

    def reference(self, task_id: str) -> Reference | None:
        return Reference(calls=(ToolCall(name="submit_answer", arguments={"value": 4}),))


async def test_the_world_gets_its_own_arguments() -> None:
    world = AnsweredWorld(Sum())
    assert (await world.call("submit_answer", {"value": 4})).text == "taken"
    assert world.answer is None and (await world.grade("")).strict


async def test_a_replay_agrees_with_the_recording() -> None:
    then = {"content": [{"type": "text", "text": "taken"}]}
    calls = [ExecutedCall(1, "submit_answer", {"value": 4}, then)]
    differences, grade, _ = await replay(Sums(), "train-1", 0, calls, "", rewards={})
    assert not differences and grade.strict


def test_checks_play_its_reference() -> None:
    benchmark = Sums()
    task = benchmark.task("train-1")
    opened = anyio.run(open_all, benchmark, [task], 0)
    assert not opened.broken and opened.solutions
    assert anyio.run(played, benchmark, task.id, opened.solutions[task.id], 0).strict
