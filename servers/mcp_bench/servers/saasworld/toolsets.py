"""The two ways to reach the apps: typed tools, or two generic tools for HTTP endpoints."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from typing import Any, Protocol

from mcp_bench.servers.contracts import ToolCall, ToolResult, ToolSpec
from mcp_bench.servers.saasworld.apps import apps, operations
from mcp_bench.servers.saasworld.authoring.builder import Built, Step
from mcp_bench.servers.saasworld.engine.api_error import ApiError, echo
from mcp_bench.servers.saasworld.engine.executor import execute, tick
from mcp_bench.servers.saasworld.engine.operation import Operation
from mcp_bench.servers.saasworld.engine.state import State
from mcp_bench.servers.saasworld.engine.validation import check_arguments, check_json


class Toolset(Protocol):
    def specs(self) -> Sequence[ToolSpec]: ...

    def call(self, state: State, name: str, arguments: dict[str, Any]) -> ToolResult:
        """Run one call. Never raises. A refused call changes nothing."""
        ...

    def play(self, step: Step) -> ToolCall:
        """Return a step of the reference solution as a call of this toolset."""
        ...


class Direct:
    """The typed tools of all reachable apps; at level 1 four shortened ones."""

    def __init__(self, built: Built) -> None:
        self._apps = built.apps
        self._offers = {offer.operation.name: offer for offer in built.offers or ()}

    def specs(self) -> Sequence[ToolSpec]:
        if self._offers:
            return tuple(ToolSpec(**offer.spec()) for offer in self._offers.values())
        return tuple(spec(operation) for name in self._apps for operation in apps()[name].operations)

    def call(self, state: State, name: str, arguments: dict[str, Any]) -> ToolResult:
        tick(state)
        try:
            operation, names = self._operation(name)
            check_json(arguments)
            result = execute(state, operation, check_arguments(operation, arguments, names))
            if names is not None and "cursor" not in names:
                result.pop("next_cursor", None)  # a short tool takes none
        except ApiError as error:
            return ToolResult(text=dumps(error.body()), is_error=True)
        return ToolResult(text=dumps(result))

    def play(self, step: Step) -> ToolCall:
        return ToolCall(name=step.operation.name, arguments=step.arguments)

    def _operation(self, name: str) -> tuple[Operation, frozenset[str] | None]:
        if name in self._offers:
            return self._offers[name]
        operation = operations().get(name)
        if operation is None or self._offers or operation.app not in self._apps:
            raise ApiError("not_found", f"There is no tool {echo(name)}.")
        return operation, None


@cache
def spec(operation: Operation) -> ToolSpec:
    return ToolSpec(name=operation.name, description=operation.about, input_schema=operation.schema)


def dumps(value: Any) -> str:
    """Return compact JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
