"""Plain Python functions as tools: the signature is the schema, the docstring the description."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from typing import Any

from pydantic import ConfigDict, Field, create_model

from mcp_bench.servers.contracts import ToolSpec


def function_tool(
    function: Callable[..., Any], *, hidden: Collection[str] = (), checked: bool = True
) -> ToolSpec:
    """Return a function as a tool.

    Args:
        function: its parameters have annotations, and a docstring in Google style can describe them.
        hidden: parameters that agents do not see.
        checked: whether arguments that do not match are refused. False: the function itself says what is
            wrong with one.

    Raises:
        TypeError: the function has `*args`, or `**kwargs` although arguments are checked.
    """
    description, _, rest = inspect.cleandoc(function.__doc__ or "").partition("\nArgs:")
    parameters = inspect.signature(function, eval_str=True).parameters
    described = _described(rest.partition("\nReturns:")[0], parameters)
    fields: dict[str, Any] = {}
    for name, one in parameters.items():
        if name in hidden:
            continue
        if one.kind is one.VAR_KEYWORD and not checked:
            continue  # the schema allows further arguments
        if one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD):
            raise TypeError(f"{function.__name__}: a tool names all its parameters, and {one} has no schema")
        kind = Any if one.annotation is one.empty else one.annotation
        default = ... if one.default is one.empty else one.default
        fields[name] = kind, Field(default, description=described[name]) if name in described else default
    config = ConfigDict(extra="forbid") if checked else ConfigDict()
    schema = create_model(function.__name__, __config__=config, **fields).model_json_schema()
    schema.pop("title", None)
    for one in schema.setdefault("properties", {}).values():
        one.pop("title", None)
    return ToolSpec(
        name=function.__name__, description=description.strip(), input_schema=schema, checked=checked
    )


def _described(lines: str, parameters: Collection[str]) -> dict[str, str]:
    """Return the description of each parameter. It can go on in further lines."""
    described: dict[str, str] = {}
    current, margin = "", None
    for line in filter(str.strip, lines.splitlines()):
        indent = len(line) - len(line.lstrip())
        margin = indent if margin is None else margin
        if indent < margin:
            break  # another section
        name, colon, words = line.partition(":")
        name = name.partition("(")[0].strip()
        if colon and indent == margin and name in parameters:
            current, described[name] = name, words.strip()
        elif current:
            described[current] = f"{described[current]} {line.strip()}".strip()
    return described
