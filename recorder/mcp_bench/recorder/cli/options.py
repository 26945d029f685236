"""Command-line options from the fields of a dataclass, as TRL's `TrlParser` makes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import Field, fields
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import click

Command = TypeVar("Command", bound=Callable[..., Any])


def options_of(settings: type) -> Callable[[Command], Command]:
    """Add an option to a command for each field of a dataclass, in the order of the fields.

    The type of a field decides what its option takes: `bool` makes a flag, a tuple a repeatable option. The
    metadata of a field hold arguments of `click.option`, and optionally `name`, if the option is not called
    like the field, and `bounds`, the least and the largest number.

    An option that is not given is None, False or empty. With `show_default` it is the field's default.
    """
    kinds = get_type_hints(settings)

    def add(command: Command) -> Command:
        for one in reversed(fields(settings)):  # click puts the last one that was added first
            command = _option(one, kinds[one.name])(command)
        return command

    return add


def given(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that were given; fields of the others keep their defaults."""
    return {name: value for name, value in options.items() if value is not None and value != ()}


def _option(one: Field[Any], kind: Any) -> Callable[[Command], Command]:
    details = dict(one.metadata)
    name = details.pop("name", one.name)
    bounds = details.pop("bounds", None)
    if isinstance(kind, UnionType):
        kind = next(part for part in get_args(kind) if part is not type(None))
    if kind is bool:
        details["is_flag"] = True
    elif get_origin(kind) is tuple:
        details["multiple"] = True
    elif kind is Path:
        details["type"] = click.Path(path_type=Path)
    else:
        details["type"] = kind if bounds is None else click.FloatRange(*bounds)
    if details.get("show_default"):
        details["default"] = one.default
    return click.option(f"--{name.replace('_', '-')}", one.name, **details)
