"""The interface between the MCP server and the source of its tools and prompts.

`WorldSession` implements it with the tools of one world. Interactive use implements it with a session that
opens and ends worlds itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from mcp_bench.servers.contracts import JSON, ToolResult, ToolSpec


class ToolSession(Protocol):
    """The tools that one client sees, and their calls."""

    @property
    def tools(self) -> Sequence[ToolSpec]:
        """The tools of now. They change only in a session that also implements `ChangesTools`."""
        ...

    async def call(
        self, name: str, arguments: dict[str, JSON], on_execute: Callable[[], None] | None = None
    ) -> ToolResult:
        """Run one tool, or refuse with `is_error`. Calls may overlap: the session serialises them.

        Args:
            on_execute: called when it is the call's turn, before it runs.
        """
        ...


@runtime_checkable
class ChangesTools(Protocol):
    """Optional: a session whose tools may change. Clients that listed them are then notified."""

    changes_tools: bool
    """Whether they may change. A client learns this when it connects."""
    tools_listeners: list[Callable[[], None]]
    """Called after each change, in the event loop. They must not block."""


@dataclass(frozen=True)
class Resource:
    """A text that a client can read by its URI. It does not change."""

    uri: str
    name: str
    description: str
    text: str
    media_type: str = "text/markdown"


@runtime_checkable
class HasResources(Protocol):
    """Optional: a session, or the world of one, with resources besides its tools."""

    @property
    def served_resources(self) -> Sequence[Resource]: ...


@dataclass(frozen=True)
class PromptSpec:
    """A prompt as a client lists it. It takes no arguments."""

    name: str
    description: str


class Prompts(Protocol):
    """Prompts: texts that a person selects in the client's own menu."""

    @property
    def prompts(self) -> Sequence[PromptSpec]: ...

    async def prompt(self, name: str) -> str:
        """Return the text that the client gives to its model.

        Raises:
            UnknownNameError: there is no such prompt.
            BenchError: the prompt is not available now; the client gets the reason.
        """
        ...
