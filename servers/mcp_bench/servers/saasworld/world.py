"""One attempt at one task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mcp_bench.servers.contracts import JSON, ToolResult, ToolSpec
from mcp_bench.servers.grading import AssertionResult, Grade
from mcp_bench.servers.saasworld.builder import Built
from mcp_bench.servers.saasworld.checks import grade
from mcp_bench.servers.saasworld.toolsets import Toolset


class SaasWorld:
    """The company's state, reached through a toolset."""

    def __init__(self, built: Built, toolset: Toolset) -> None:
        self.state = built.start()
        self._built = built
        self._toolset = toolset
        self._tools = tuple(toolset.specs())

    def tools(self) -> Sequence[ToolSpec]:
        return self._tools

    async def call(self, name: str, arguments: dict[str, JSON]) -> ToolResult:
        """Run one tool; arguments that do not fit its schema are refused in the API's own words."""
        return self._toolset.call(self.state, name, arguments)

    async def grade(self, answer: str) -> Grade:
        """Judge the state; what the agent says does not matter."""
        return grade(self.state, self._built.assertions)

    async def assertions_now(self) -> Sequence[AssertionResult]:
        """Return how the assertions stand."""
        return grade(self.state, self._built.assertions).assertions

    async def snapshot(self) -> JSON:
        """Return what changed since the start; the start follows from the task's id.

        `{"now": time, "changes": [{"collection", "id", "before", "after"}]}`, null for "no record".
        """
        changes: list[Any] = [change._asdict() for change in self.state.changes()]
        return {"now": self.state.timestamp(), "changes": changes}

    async def close(self) -> None:
        """Nothing to end: the world is plain memory."""
