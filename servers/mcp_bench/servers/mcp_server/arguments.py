"""Validate the arguments of a tool call against its JSON Schema, with errors that an agent can act on."""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError
from referencing import Registry

from mcp_bench.servers.contracts import JSON, ToolSpec
from mcp_bench.servers.errors import BenchError

MAX_PROBLEMS = 5
MAX_ERRORS = 20
"""Errors that are looked for: a call can have millions."""
MAX_VALUES = 50_000
"""Of all arrays and objects of a call together: checking one takes up to 0.05 ms, while everybody waits."""
MAX_SHOWN = 80
"""Characters of a wrong value, or of a name, that the error repeats to the agent."""


class ToolSchemaError(BenchError):
    """A benchmark's tool has an invalid input schema."""


class ArgumentValidator:
    """Checks the arguments of one tool. Compiles the schema once and never fetches remote references."""

    def __init__(self, tool: ToolSpec) -> None:
        """Compile the schema.

        Raises:
            ToolSchemaError: the schema is not a JSON Schema (Draft 2020-12) of type object.
        """
        if tool.input_schema.get("type") != "object":
            raise ToolSchemaError(f"tool {tool.name!r}: the input schema must have type 'object'")
        self._checked = tool.checked
        try:
            self._validator = compiled(json.dumps(tool.input_schema))
        except SchemaError as error:
            raise ToolSchemaError(
                f"tool {tool.name!r}: bad input schema at {error.json_path}: {error.message}"
            ) from error

    def problems(self, arguments: Mapping[str, JSON]) -> list[str]:
        """Return one sentence per problem, at most `MAX_PROBLEMS`; empty if the arguments are valid.

        Arguments of a tool that is not `checked` need only be JSON, which has no NaN.
        """
        if has_many_values(arguments):
            return [f"it has more than {MAX_VALUES:,} values"]
        errors: list[ValidationError] = []
        if self._checked:
            errors = list(islice(self._validator.iter_errors(arguments), MAX_ERRORS))
        places = list(islice(non_finite(arguments), MAX_ERRORS))
        errors.sort(key=lambda error: error.json_path)
        found = [sentence for error in errors for sentence in describe(error)]
        found += [f"{path} must be a finite number" for path in places]
        more = len(found) - MAX_PROBLEMS
        if more <= 0:
            return found
        at_least = "at least " if MAX_ERRORS in (len(errors), len(places)) else ""
        return [*found[:MAX_PROBLEMS], f"and {at_least}{more} more problems"]


@lru_cache(maxsize=2048)
def compiled(schema: str) -> Draft202012Validator:
    """Return a validator. Cached: checking the schemas of a hundred tools takes half a second."""
    parsed = json.loads(schema)
    Draft202012Validator.check_schema(parsed)
    return Draft202012Validator(parsed, registry=Registry())


def describe(error: ValidationError) -> Iterator[str]:
    """Yield one sentence per problem, with its place and, if short, the value."""
    where = place(error.absolute_path)
    inside = f" in {where}" if error.absolute_path else ""
    instance: Any = error.instance
    wanted: Any = error.validator_value
    match error.validator:
        case "required":
            # jsonschema reports each missing name separately, and only in its message
            missing = [name for name in wanted if error.message.startswith(f"{name!r} ")]
            yield from (f"missing argument {name!r}{inside}" for name in missing)
        case "additionalProperties" if wanted is False:
            schema: Any = error.schema
            known = schema.get("properties", {})
            unknown = [name for name in instance if name not in known]
            for name in map(cut, unknown[:MAX_PROBLEMS]):
                yield f"unknown argument {name!r}{inside}{hint(name, known)}"
            yield from unknown[MAX_PROBLEMS:]  # these are only counted: a hint takes a millisecond
        case "type":
            yield f"{where} must be {types([wanted])}, not {shown(instance)}"
        case "anyOf":
            yield from describe_choice(error, where)
        case "enum":
            yield f"{where} must be one of {', '.join(map(repr, wanted))}, not {shown(instance)}"
        case _:
            yield in_general(error, where)


def describe_choice(error: ValidationError, where: str) -> Iterator[str]:
    """Yield the problems of a value that can have one of several types."""
    branches: dict[int | str, list[ValidationError]] = {}
    for inner in error.context or ():
        branches.setdefault(inner.relative_schema_path[0], []).append(inner)
    wrong_types = [e.validator_value for found in branches.values() for e in found if of_wrong_type(e)]
    of_right_type = [found for found in branches.values() if not any(map(of_wrong_type, found))]
    if not of_right_type:
        yield f"{where} must be {types(wrong_types)}, not {shown(error.instance)}"
    elif len(of_right_type) == 1:
        for inner in of_right_type[0]:
            yield from describe(inner)
    else:
        yield in_general(error, where)


def of_wrong_type(inner: ValidationError) -> bool:
    return inner.validator == "type" and not inner.relative_path


def in_general(error: ValidationError, where: str) -> str:
    message = error.message if len(error.message) <= 300 else f"{error.message[:300]}..."
    return f"{where}: {message}"


def place(path: Iterable[str | int]) -> str:
    """Return a path such as `recipients[0].name`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else str(step)
    return f"argument {cut(text)!r}" if text else "the arguments"


def types(wanted: Iterable[Any]) -> str:
    """Return the names in `type` keywords, each a name or a list of names."""
    names = [name for item in wanted for name in ([item] if isinstance(item, str) else item)]
    return " or ".join(dict.fromkeys(names))


def shown(value: Any) -> str:
    """Return a value with its JSON type, shortened."""
    if value is None:
        return "null"
    names = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
    return f"{names.get(type(value), 'value')} {cut(repr(value))}"


def cut(text: str) -> str:
    """Return a text, or its beginning if it is longer than `MAX_SHOWN`."""
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


def hint(name: str, known: Iterable[str]) -> str:
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    if near:
        return f" (did you mean {near[0]!r}?)"
    return f" (known: {', '.join(names)})" if names else " (the tool takes no arguments)"


def has_many_values(value: JSON | Mapping[str, JSON]) -> bool:
    """Return whether a call has more than `MAX_VALUES` values."""
    count, left = 0, [value]
    while left and count <= MAX_VALUES:
        one = left.pop()
        inner = one.values() if isinstance(one, Mapping) else one if isinstance(one, list) else ()
        count += len(inner)
        if count <= MAX_VALUES:
            left += inner
    return count > MAX_VALUES


def non_finite(value: JSON | Mapping[str, JSON], path: tuple[str | int, ...] = ()) -> Iterator[str]:
    """Yield the places of NaN and infinities: not valid JSON, although Python's parsers accept them."""
    if isinstance(value, float) and not math.isfinite(value):
        yield place(path)
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from non_finite(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from non_finite(inner, (*path, index))
