"""A world that stops answering after a number of calls."""

from __future__ import annotations

from collections.abc import Sequence

from mcp_bench.servers.contracts import JSON, Grade, ToolResult, ToolSpec, World


class CallLimit:
    """Passes the first `limit` calls on to `world` (all of them for None) and refuses the rest."""

    def __init__(self, world: World, limit: int | None) -> None:
        self._world = world
        self._left = limit

    def tools(self) -> Sequence[ToolSpec]:
        return self._world.tools()

    async def call(self, name: str, arguments: dict[str, JSON]) -> ToolResult:
        if self._left is not None:
            if self._left == 0:
                return ToolResult(text="the limit of tool calls for this task is reached", is_error=True)
            self._left -= 1
        return await self._world.call(name, arguments)

    async def grade(self, answer: str) -> Grade:
        return await self._world.grade(answer)

    async def snapshot(self) -> JSON:
        return await self._world.snapshot()

    async def close(self) -> None:
        await self._world.close()
