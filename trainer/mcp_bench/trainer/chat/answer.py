"""What an answer consists of, and how argument texts become values."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Call:
    """A tool call that a model wrote."""

    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """An answer's parts. `reasoning` is None if the model wrote none."""

    content: str
    reasoning: str | None = None
    calls: tuple[Call, ...] = ()


class MalformedCallError(ValueError):
    """A call is not in its form. The whole answer is then text."""


def call_of(value: object, keys: Sequence[str] = ("arguments", "parameters")) -> Call:
    """Return the call that a JSON object describes.

    Raises:
        MalformedCallError: it has no name, or its arguments are not an object.
    """
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        raise MalformedCallError("a call needs a name")
    arguments: Any = next((value[key] for key in keys if key in value), {})
    if isinstance(arguments, str):
        arguments = read_json(arguments)
    if not isinstance(arguments, dict):
        raise MalformedCallError("a call's arguments are an object")
    return Call(value["name"], arguments)


def read_json(text: str) -> Any:
    """Return the value of a JSON text.

    Raises:
        MalformedCallError: it is not JSON. Python's `NaN` and `Infinity` are not either.
    """
    value, end = read_json_at(text, 0)
    if text[end:].strip():
        raise MalformedCallError("text after the JSON value")
    return value


def read_json_at(text: str, start: int) -> tuple[Any, int]:
    """Return the JSON value that begins at `start` (after white space), and the index of its end.

    Raises:
        MalformedCallError: it is not JSON, or cannot be written again: half a character, or infinite (1e999).
    """
    while start < len(text) and text[start].isspace():
        start += 1
    try:
        value, end = _DECODER.raw_decode(text, start)
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError) as error:
        raise MalformedCallError(str(error)) from error
    return value, end


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse)
_PYTHON = {"True": True, "False": False, "None": None}
_KINDS: dict[str, tuple[type, ...]] = {
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
    "array": (list,),
    "object": (dict,),
}

DEFINITIONS = ("$defs", "definitions")
WHOLE = "whole-schema"
"""The definition that a tool's whole schema becomes for those of its properties that refer to it."""


def properties_of(tools: Sequence[Mapping[str, Any]], name: str) -> dict[str, Any]:
    """Return the parameters' schemas of the tool `name`, or none if it is not among `tools`."""
    for tool in tools:
        function = tool.get("function") or {}
        if function.get("name") == name:
            schema = function.get("parameters") or {}
            properties = schema.get("properties")
            properties = properties if isinstance(properties, dict) else {}
            return {key: with_definitions(inner, schema) for key, inner in properties.items()}
    return {}


def with_definitions(inner: object, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a property's schema together with what it may refer to.

    That is a definition, or (as zod's schemas do) the tool's whole schema or another property in it, which
    are then a definition, too.
    """
    if not isinstance(inner, dict):
        return {}
    kept = {key: schema[key] for key in DEFINITIONS if key in schema}
    alone = inner | kept
    moved = _moved(alone)
    if moved == alone:
        return alone
    whole = {key: value for key, value in schema.items() if key not in DEFINITIONS}
    definitions = moved.get("$defs")
    known = definitions if isinstance(definitions, dict) else {}
    return {**moved, "$defs": {**known, WHOLE: _moved(whole)}}


def _moved(part: Any) -> Any:
    """Return a part of a schema whose references to the whole one lead to the definition `WHOLE`."""
    if isinstance(part, list):
        return [_moved(one) for one in part]
    if not isinstance(part, dict):
        return part
    made = {key: _moved(one) for key, one in part.items()}
    reference = part.get("$ref")
    if isinstance(reference, str) and re.match(r"#(?!/(\$defs|definitions)/)", reference):
        made["$ref"] = f"#/$defs/{WHOLE}{reference[1:]}"
    return made


def typed(text: str, schema: object) -> Any:
    """Return the value of an argument that was written without quotes.

    A text whose schema allows a string stays one, unless it is a value of another allowed type. Without a
    schema it is a string, as in vLLM's parsers.
    """
    types = types_of(schema)
    if not types or types == {"string"}:
        return text
    value: Any = text
    stripped = text.strip()
    if stripped in _PYTHON:  # templates that render with `| string` write Python's names
        value = _PYTHON[stripped]
    else:
        try:
            value = read_json(stripped)
        except MalformedCallError:
            return text
    for name in types - {"string"}:
        if isinstance(value, _KINDS.get(name, ())) and (name == "boolean" or not isinstance(value, bool)):
            return value
    return text if "string" in types else value


def types_of(schema: object) -> set[str]:
    """Return the names of the JSON types that a schema allows; none if it does not say."""
    return _types(schema, schema, set())


def _types(schema: object, root: object, followed: set[str]) -> set[str]:
    """Return the types of a part of a schema. `root` has the definitions; each reference is followed once."""
    if not isinstance(schema, dict):
        return set()
    kind = schema.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    found = {name for name in kinds if isinstance(name, str)}
    for key in ("anyOf", "oneOf", "allOf"):
        parts = schema.get(key)
        for one in parts if isinstance(parts, list) else ():
            found |= _types(one, root, followed)
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference not in followed:
        followed.add(reference)
        found |= _types(referred(reference, root), root, followed)
    choices = [schema["const"]] if "const" in schema else schema.get("enum")
    if not found and isinstance(choices, list):
        found = {"string"} if all(isinstance(one, str) for one in choices) else set(_KINDS)
    return found


def referred(reference: str, root: object) -> object:
    """Return what a reference like `#/$defs/Place` refers to, or None if it is not there."""
    start, *keys = reference.split("/")
    found = root if start == "#" else None
    for key in keys:
        if isinstance(found, list):
            found = found[int(key)] if key.isdecimal() and int(key) < len(found) else None
        else:
            found = found.get(key.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
    return found
