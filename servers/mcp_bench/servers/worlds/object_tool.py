"""Tools whose arguments are written as JSON Schemas."""

from __future__ import annotations

from collections.abc import Sequence

from mcp_bench.servers.contracts import JSON, ToolSpec


def object_tool(name: str, description: str, required: Sequence[str] = (), /, **properties: JSON) -> ToolSpec:
    """Return a tool that takes these arguments and no others.

    Args:
        name: of the tool.
        description: what the agent reads of it.
        required: names of the arguments that every call has.
        properties: the schema of each argument.
    """
    schema: dict[str, JSON] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = list(required)
    return ToolSpec(
        name=name, description=description, input_schema={**schema, "additionalProperties": False}
    )
