"""One attempt at a task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mcp_bench.servers.contracts import JSON, ToolResult, ToolSpec
from mcp_bench.servers.grading import AssertionResult, Grade
from mcp_bench.servers.saasworld.authoring.builder import Built
from mcp_bench.servers.saasworld.grading.checks import grade
from mcp_bench.servers.saasworld.toolsets import Toolset


class SaasWorld:
    """The company's state and the toolset that accesses it."""

    def __init__(self, built: Built, toolset: Toolset) -> None:
        self.state = built.start()
        self._built = built
        self._toolset = toolset
        self._tools = tuple(toolset.specs())

    def tools(self) -> Sequence[ToolSpec]:
        return self._tools

    async def call(self, name: str, arguments: dict[str, JSON]) -> ToolResult:
        """Run one tool. Invalid arguments are refused with the API's own errors."""
        return self._toolset.call(self.state, name, arguments)

    async def grade(self, answer: str) -> Grade:
        """Grade the state. The agent's answer is not used."""
        return grade(self.state, self._built.assertions)

    async def assertions_now(self) -> Sequence[AssertionResult]:
        """Return the current results of the assertions."""
        return grade(self.state, self._built.assertions).assertions

    async def snapshot(self) -> JSON:
        """Return the changes since the start. The task's id determines the start itself.

        `{"now": time, "changes": [{"collection", "id", "before", "after"}]}`; null means "no record".
        """
        changes: list[Any] = [change._asdict() for change in self.state.changes()]
        return {"now": self.state.timestamp(), "changes": changes}

    async def close(self) -> None:
        """Do nothing: all state is in memory."""
