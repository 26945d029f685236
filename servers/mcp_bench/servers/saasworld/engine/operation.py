"""One operation of an app, available as a typed tool and as an HTTP endpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mcp_bench.servers.saasworld.engine.fields import Field
from mcp_bench.servers.saasworld.engine.state import State

Arguments = dict[str, Any]
Run = Callable[[State, Arguments], dict[str, Any]]
"""Runs an operation on arguments that match its schema. If it raises ApiError, its changes are undone."""


@dataclass(frozen=True, eq=False)
class Parameters:
    """The parameters of a call."""

    parameters: tuple[Field, ...]

    @cached_property
    def by_name(self) -> dict[str, Field]:
        return {field.name: field for field in self.parameters}

    @cached_property
    def schema(self) -> dict[str, Any]:
        return object_schema(self.parameters)


@dataclass(frozen=True, eq=False)
class Operation(Parameters):
    name: str
    """`<app>_<resource>_<verb>`; without the resource if it has the app's name."""
    app: str
    method: str
    path: str
    """Path below the service's base URL; `{id}` is an argument."""
    about: str
    short: str
    """Short description, for small models."""
    run: Run
    writes: bool

    @property
    def url(self) -> str:
        return f"https://{self.app}.example.com/v1{self.path}"


def object_schema(parameters: Iterable[Field], *, described: bool = True) -> dict[str, Any]:
    """Return the strict JSON Schema of an object with these fields."""
    parameters = list(parameters)
    properties: dict[str, Any] = {}
    for field in parameters:
        schema = dict(field.schema)
        if described:
            schema["description"] = field.about
        else:
            schema = {key: value for key, value in schema.items() if key in ("type", "enum", "items")}
            if "items" in schema:
                schema["items"] = {"type": schema["items"]["type"]}
        properties[field.name] = schema
    return {
        "type": "object",
        "properties": properties,
        "required": [field.name for field in parameters if field.required],
        "additionalProperties": False,
    }
