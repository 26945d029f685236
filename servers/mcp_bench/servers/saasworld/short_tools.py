"""The four tools of a level-1 task, shortened for very small models.

They are the tools of the reference solution, filled up with others of the same apps. Only a few of their
parameters are kept, but more than the task needs if the size limit allows it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from mcp_bench.servers.saasworld.apps import apps
from mcp_bench.servers.saasworld.engine.draw import Draw
from mcp_bench.servers.saasworld.engine.operation import Operation, object_schema
from mcp_bench.servers.saasworld.engine.seeder import FamilyError

TOOLS = 4
MAX_CHARACTERS = 1600
"""Limit for the prompt and the tools together, with the tools as canonical JSON."""


class Offer(NamedTuple):
    """An operation and the parameters that the agent sees."""

    operation: Operation
    parameters: frozenset[str]

    def spec(self) -> dict[str, Any]:
        """Return the tool's name, description and input schema."""
        kept = [field for field in self.operation.parameters if field.name in self.parameters]
        schema = object_schema(kept, described=False)
        return {"name": self.operation.name, "description": self.operation.short, "input_schema": schema}


def four_tools(
    draw: Draw, prompt: str, calls: Sequence[tuple[Operation, dict[str, Any]]], names: Sequence[str]
) -> tuple[Offer, ...]:
    """Return the tools of a level-1 task, sorted by name.

    Raises:
        FamilyError: the solution needs more than four tools, or they are too long.
    """
    used: dict[Operation, set[str]] = {}
    for operation, arguments in calls:
        used.setdefault(operation, set()).update(arguments)
    if len(used) > TOOLS:
        raise FamilyError(f"level 1 has {TOOLS} tools, the reference solution uses {len(used)}")
    own = [name for name in names if any(operation.app == name for operation in used)]
    others = [operation for name in own for operation in apps()[name].operations if operation not in used]
    # tools of the same resource first: they are the tempting wrong choices
    others = draw.sample(others, len(others))
    resources = {operation.path.split("/")[1] for operation in used}
    others.sort(key=lambda operation: operation.path.split("/")[1] not in resources)
    chosen = [*used, *others[: TOOLS - len(used)]]
    spare = {operation: _spare(draw, operation, used.get(operation, set())) for operation in chosen}
    for extra in (2, 1, 0):
        offers = [
            Offer(
                operation,
                frozenset(_needed(operation) | used.get(operation, set()) | set(spare[operation][:extra])),
            )
            for operation in chosen
        ]
        if len(prompt) + size(offers) <= MAX_CHARACTERS:
            return tuple(sorted(offers, key=lambda offer: offer.operation.name))
    raise FamilyError(
        f"level 1: prompt and tools have {len(prompt) + size(offers)} characters, at most {MAX_CHARACTERS}: "
        "shorten the request or use tools with fewer parameters"
    )


def size(offers: Sequence[Offer]) -> int:
    """Return the length of the tools as canonical JSON, in characters."""
    specs = [offer.spec() for offer in offers]
    return len(json.dumps(specs, sort_keys=True, separators=(",", ":"), ensure_ascii=False))


def _needed(operation: Operation) -> set[str]:
    return {field.name for field in operation.parameters if field.required}


def _spare(draw: Draw, operation: Operation, used: set[str]) -> list[str]:
    """Return unused parameters in random order, so that the parameters shown do not reveal the solution."""
    names = [
        field.name
        for field in operation.parameters
        if field.name not in used and not field.required and field.name not in ("cursor", "sort", "limit")
    ]
    return draw.sample(names, len(names))
