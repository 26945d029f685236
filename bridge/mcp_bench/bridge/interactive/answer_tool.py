"""`submit_answer` on every world, also on one whose benchmark grades no text."""

from __future__ import annotations

from collections.abc import Sequence

from mcp_bench.servers.answer import ANSWER_TAKEN, SUBMIT_ANSWER
from mcp_bench.servers.contracts import JSON, ToolResult, ToolSpec, World
from mcp_bench.servers.grading import Grade


class AnsweredWorld:
    """A world as it is, and the answer that was handed in last."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._own = any(tool.name == SUBMIT_ANSWER.name for tool in world.tools())
        self.answer: str | None = None

    def tools(self) -> Sequence[ToolSpec]:
        return with_answer(self._world.tools())

    async def call(self, name: str, arguments: dict[str, JSON]) -> ToolResult:
        if name == SUBMIT_ANSWER.name:
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
    """Return tools with `submit_answer` among them."""
    own = any(tool.name == SUBMIT_ANSWER.name for tool in tools)
    return tuple(tools) if own else (*tools, SUBMIT_ANSWER)
