"""Convert AgentDojo's functions to tools, and their pydantic parameters to plain JSON Schemas."""

from __future__ import annotations

from typing import Any

from agentdojo.functions_runtime import Function

from mcp_bench.servers.contracts import JSON, ToolSpec


def tool_spec(function: Function[Any, Any]) -> ToolSpec:
    """Return a function as a tool, with its descriptions and without references in the schema."""
    schema: dict[str, Any] = function.parameters.model_json_schema()
    plain: Any = without_references(schema, schema.pop("$defs", {}))
    return ToolSpec(
        name=function.name,
        description=function.description.strip(),
        input_schema={
            "type": "object",
            "properties": plain.get("properties", {}),
            **({"required": plain["required"]} if plain.get("required") else {}),
            "additionalProperties": False,
        },
    )


def without_references(node: JSON, definitions: dict[str, JSON]) -> JSON:
    """Replace references by their definitions, and drop generated titles."""
    if isinstance(node, list):
        return [without_references(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if isinstance(reference := node.get("$ref"), str):
        rest = {key: value for key, value in node.items() if key != "$ref"}
        target = definitions[reference.removeprefix("#/$defs/")]
        assert isinstance(target, dict)  # noqa: S101 - pydantic defines objects only
        return without_references({**target, **rest}, definitions)
    return {
        key: {name: without_references(inner, definitions) for name, inner in value.items()}
        if key == "properties" and isinstance(value, dict)
        else without_references(value, definitions)
        for key, value in node.items()
        if not (key == "title" and isinstance(value, str))
    }
