"""Worlds of tools that were written for Inspect (UK AI Security Institute, MIT licence).

Such tools keep their state in a `Store`, which they find by a context variable. A world has one of its own.
Only workers import this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from inspect_ai.tool import Tool, ToolDef
from inspect_ai.util import Store
from inspect_ai.util._store import init_subtask_store  # there is no public way to choose the store
from pydantic import validate_call

from mcp_bench.servers.contracts import JSON, ToolResult, ToolSpec
from mcp_bench.servers.worlds.simple import SimpleWorld


def definitions(tools: Iterable[Tool]) -> dict[str, ToolDef]:
    """Return Inspect's definitions of tools by name."""
    return {one.name: one for one in map(ToolDef, tools)}


def specs(tools: Mapping[str, ToolDef]) -> tuple[ToolSpec, ...]:
    """Return tools as agents see them."""
    return tuple(
        ToolSpec(
            name=one.name,
            description=one.description,
            input_schema=one.parameters.model_dump(mode="json", exclude_none=True),
        )
        for one in tools.values()
    )


class InspectWorld(SimpleWorld):
    """A world with a store. Its constructor enters the store, so that a subclass can fill it."""

    def __init__(self, tools: Mapping[str, ToolDef]) -> None:
        self.toolset = specs(tools)
        self._store = Store()
        self.enter()

    def enter(self) -> None:
        """Make the world's store the one that Inspect's functions use from here on, in this task."""
        init_subtask_store(self._store)

    async def run(self, tool: ToolDef, arguments: Mapping[str, Any]) -> ToolResult:
        """Run a tool. Its errors are for the model, as in Inspect."""
        self.enter()
        arguments_of: dict[str, JSON] = dict(arguments)
        try:
            return ToolResult(text=str(await validate_call(tool.tool)(**arguments_of)))
        except Exception as error:
            return ToolResult(text=f"Error: {error}", is_error=True)
