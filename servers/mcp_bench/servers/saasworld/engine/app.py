"""An app: its resources, its actions, and a function that fills it with ordinary records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from mcp_bench.servers.saasworld.engine.operation import Operation
from mcp_bench.servers.saasworld.engine.resource import Resource
from mcp_bench.servers.saasworld.engine.seeder import Seeder

Populate = Callable[[Seeder, int], None]
"""Adds about the given number of ordinary records to the app's collections."""


@dataclass(frozen=True, eq=False)
class App:
    name: str
    about: str
    resources: tuple[Resource, ...]
    populate: Populate
    actions: tuple[Operation, ...] = ()

    @cached_property
    def operations(self) -> tuple[Operation, ...]:
        """All operations, grouped by resource."""
        generic = [operation for resource in self.resources for operation in resource.operations()]
        order = [resource.name for resource in self.resources]

        def place(operation: Operation) -> int:
            return order.index(operation.path.split("/")[1])

        return tuple(sorted([*generic, *self.actions], key=place))
