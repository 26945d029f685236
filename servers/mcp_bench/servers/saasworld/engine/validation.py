"""Validate the arguments of a call: the JSON Schema, and rules that a schema cannot express."""

from __future__ import annotations

import json
from datetime import date, datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from mcp_bench.servers.saasworld.engine.api_error import ApiError, echo, invalid
from mcp_bench.servers.saasworld.engine.fields import Field
from mcp_bench.servers.saasworld.engine.operation import Arguments, Parameters, object_schema

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator


def check_json(value: Any) -> None:
    """Reject values that Python accepts as JSON but other parsers do not.

    Raises:
        ApiError: the value has NaN, infinities, lone surrogates or excessive nesting.
    """
    try:
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise ApiError(
            "validation_error", f"The arguments are not valid JSON ({type(error).__name__})."
        ) from None


def check_arguments(
    operation: Parameters, arguments: Arguments, names: frozenset[str] | None = None
) -> Arguments:
    """Check the arguments and return them, with integral floats as integers.

    Args:
        names: the parameters that the agent can use; None for all.

    Raises:
        ApiError: the arguments are invalid. It reports the first problem and its field.
    """
    for error in _validator(operation, names).iter_errors(arguments):
        raise _worded(error)
    checked = dict(arguments)
    for name, value in arguments.items():
        field = operation.by_name[name]
        if isinstance(value, float) and field.schema["type"] == "integer":
            checked[name] = int(value)  # JSON Schema counts 5.0 as an integer
        check_value(field, value)
    return checked


def check_value(field: Field, value: Any) -> None:
    """Check a value beyond its schema.

    Raises:
        ApiError: a date or time does not exist, or a required text is blank.
    """
    if field.kind:
        parse = date.fromisoformat if field.kind == "date" else datetime.fromisoformat
        try:
            parse(value)
        except ValueError:
            raise invalid(field.name, f"{field.name} is not a real {field.kind}: {echo(value)}.") from None
    if field.required and isinstance(value, str) and not value.strip():
        raise invalid(field.name, f"{field.name} must not be blank.")


@cache
def _validator(operation: Parameters, names: frozenset[str] | None) -> Draft202012Validator:
    from jsonschema import Draft202012Validator

    kept = [field for field in operation.parameters if names is None or field.name in names]
    return Draft202012Validator(object_schema(kept))


def _worded(error: Any) -> ApiError:
    """Convert a schema error to the API's error."""
    place = ".".join(str(step) for step in error.absolute_path)
    match error.validator:
        case "required":
            missing = next(name for name in error.validator_value if name not in error.instance)
            return invalid(missing, f"{missing} is required.")
        case "additionalProperties":
            unknown = next(name for name in error.instance if name not in error.schema.get("properties", {}))
            return ApiError("validation_error", f"Unknown parameter {echo(unknown)}.")
        case "type":
            wanted = error.validator_value
            wanted = " or ".join(wanted) if isinstance(wanted, list) else wanted
            return invalid(place, f"{place or 'The body'} must be of type {wanted}.")
        case "enum":
            return invalid(place, f"{place} must be one of: {', '.join(map(str, error.validator_value))}.")
        case "pattern":
            return invalid(place, f"{place} has the wrong format: {echo(error.instance)}.")
        case rule:
            return invalid(place, f"{place} breaks the limit {rule} = {echo(error.validator_value)}.")
