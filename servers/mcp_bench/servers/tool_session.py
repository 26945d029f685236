"""What the MCP server offers to one client, and who answers for it.

`WorldSession` is the tools of one world; hand use is a session that opens and ends worlds itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from mcp_bench.servers.contracts import JSON, ToolResult, ToolSpec


class ToolSession(Protocol):
    """The tools that one client sees, and their calls."""

    @property
    def tools(self) -> Sequence[ToolSpec]:
        """Listed from the start; the list does not change."""
        ...

    async def call(
        self, name: str, arguments: dict[str, JSON], on_execute: Callable[[], None] | None = None
    ) -> ToolResult:
        """Run one tool, or refuse with `is_error`. Calls may overlap: the session puts them in order.

        `on_execute` is called when the call has its turn, before it runs.
        """
        ...


@dataclass(frozen=True)
class PromptSpec:
    """A prompt as a client lists it. It takes no arguments."""

    name: str
    description: str


class Prompts(Protocol):
    """Prompts beside the tools: texts that a person picks in the client's own menu."""

    @property
    def prompts(self) -> Sequence[PromptSpec]: ...

    async def prompt(self, name: str) -> str:
        """Return the text that the client is to put before its model.

        Raises:
            UnknownNameError: there is no such prompt.
            BenchError: it cannot be had now; the client is told why.
        """
        ...
