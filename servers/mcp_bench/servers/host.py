"""What the trusted side lends a world: a sandbox, and models that play its user, its judge or its opponent.

The operator names the model (`mcp-bench record --user-model NAME`). A world only asks; requests leave
from the trusted side, which records and limits them. No key and no address reaches a worker or an agent.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Protocol

from mcp_bench.servers.contracts import Benchmark, ChatMessage, ToolSpec, World
from mcp_bench.servers.errors import HostError
from mcp_bench.servers.needs import Role
from mcp_bench.servers.sandbox import Sandbox, SandboxError, SandboxSpec

__all__ = ["NO_HOST", "Host", "HostError", "NoHost", "open_world"]


class Host(Protocol):
    """What a world may ask of the trusted side during `call`, `reply`, `suggest` and `grade`."""

    async def ask(
        self, role: Role, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec] = ()
    ) -> ChatMessage:
        """Return the next message of a model, which has the role `assistant`.

        Args:
            role: whom the model plays. The operator can name a model for each.
            messages: the conversation as this model sees it: its own messages are those of the assistant.
            tools: what it may call; its calls are in the answer, and the world runs them.

        Raises:
            HostError: there is no model for the role, or it failed. The episode is then invalid.
        """
        ...

    async def sandbox(self, spec: SandboxSpec) -> Sandbox:
        """Return a new sandbox, which ends with the episode. A world asks for it when it opens.

        What it enforces is stored with the start of the episode, before the agent works.

        Raises:
            SandboxError: no sandbox can be started here, or the episode has begun.
        """
        ...


class NoHost:
    """A host that lends nothing."""

    def __init__(self, why: str = "this world was opened without models for its roles") -> None:
        self._why = why

    async def ask(
        self, role: Role, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec] = ()
    ) -> ChatMessage:
        raise HostError(f"there is no model for the role {role!r}: {self._why}")

    async def sandbox(self, spec: SandboxSpec) -> Sandbox:
        raise SandboxError("there is no sandbox: this world was opened without one")


NO_HOST = NoHost()


def takes_host(function: Callable[..., Any]) -> bool:
    """Return whether a function has the parameter `host`."""
    return has_parameter(function, "host")


def has_parameter(function: Callable[..., Any], name: str) -> bool:
    """Return whether a function, or a method of an object, has a parameter."""
    return name in _parameters(getattr(function, "__func__", function))


@lru_cache(maxsize=64)  # every world that opens asks for the same few, which takes longer than some open
def _parameters(function: Callable[..., Any]) -> frozenset[str]:
    return frozenset(inspect.signature(function).parameters)


async def open_world(benchmark: Benchmark, task_id: str, *, seed: int, host: Host = NO_HOST) -> World:
    """Open a world of a task. Only a benchmark whose `open` has the parameter `host` gets it."""
    if not takes_host(benchmark.open):
        return await benchmark.open(task_id, seed=seed)
    opened: Callable[..., Any] = benchmark.open
    world: World = await opened(task_id, seed=seed, host=host)
    return world
