"""The tools and the prompt that interactive use adds to a benchmark.

With them an agent starts, answers and finishes tasks. Their results never reveal a grade.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mcp_bench.servers.contracts import JSON, ToolResult, ToolSpec, World, WorldDefaults, with_defaults
from mcp_bench.servers.grading import Grade
from mcp_bench.servers.mcp_server.tool_session import PromptSpec
from mcp_bench.servers.worlds.answer import ANSWER_TAKEN, SUBMIT_ANSWER
from mcp_bench.servers.worlds.object_tool import object_tool

NEXT_TASK: Final = object_tool(
    "next_task",
    (
        "Start the next task, and get what is to be done. Then work on it with the other tools, hand in "
        "your answer with submit_answer where there is one to give, and call finish_task when you are "
        "done. A task that is still open ends."
    ),
)
FINISH_TASK: Final = object_tool(
    "finish_task", "Say that you are done with the task. Nothing can be changed any more after that."
)
CONTROL: Final = frozenset({NEXT_TASK.name, FINISH_TASK.name})

NEXT_TASK_PROMPT: Final = PromptSpec(
    name=NEXT_TASK.name, description="Start the next task. One that is still open ends."
)


class AnsweredWorld:
    """Add `submit_answer` to a world, and remember the last answer.

    A world's own `submit_answer` may have any arguments. One that is not named `answer` is between the agent
    and the world.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._own = any(tool.name == SUBMIT_ANSWER.name for tool in world.tools())
        self.answer: str | None = None
        self.changes_tools = with_defaults(world, WorldDefaults).changes_tools

    def tools(self) -> Sequence[ToolSpec]:
        return with_answer(self._world.tools())

    async def call(self, name: str, arguments: dict[str, JSON]) -> ToolResult:
        if name == SUBMIT_ANSWER.name:
            if "answer" in arguments:
                self.answer = str(arguments["answer"])
            if not self._own:
                return ANSWER_TAKEN
        return await self._world.call(name, arguments)

    async def grade(self, answer: str) -> Grade:
        return await self._world.grade(answer)

    async def snapshot(self) -> JSON:
        return await self._world.snapshot()

    async def close(self) -> None:
        await self._world.close()


def with_answer(tools: Sequence[ToolSpec]) -> tuple[ToolSpec, ...]:
    """Return the tools, with `submit_answer` added if it is missing."""
    own = any(tool.name == SUBMIT_ANSWER.name for tool in tools)
    return tuple(tools) if own else (*tools, SUBMIT_ANSWER)
