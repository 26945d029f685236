"""Command-line options from the fields of a dataclass, as TRL's `TrlParser` makes them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import Field, fields
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import click

Command = TypeVar("Command", bound=Callable[..., Any])
Reader = click.ParamType[Any] | Callable[[click.Context, click.Parameter, Any], Any]


class Word(click.Choice[str]):
    """One of a few words. An error names the word that was meant, if one is near."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        from difflib import get_close_matches

        said = super().get_invalid_choice_message(value, ctx)
        near = get_close_matches(str(value), self.choices, n=1)
        return f"{said} Did you mean {near[0]!r}?" if near else said


def options_of(settings: type, *only: str, **readers: Reader) -> Callable[[Command], Command]:
    """Add an option to a command for each field of a dataclass that has a help, see `option_fields`.

    The type of a field decides what its option takes: `bool` makes a flag, a list or a mapping a repeatable
    option. An option that is not given has the default of its field, if that is a number or a word. Else it
    is None, False or empty.

    Args:
        settings: the dataclass.
        only: the fields to take, in this order. Default: all.
        readers: by field, click's type or callback for what a word on the command line means.
    """
    kinds = get_type_hints(settings, include_extras=True)
    declared = {one.name: one for one in fields(settings) if "help" in one.metadata}

    def add(command: Command) -> Command:
        for name in reversed(only or tuple(declared)):  # click puts the last one that was added first
            command = _option(declared[name], kinds[name], readers.get(name))(command)
        return command

    return add


def given(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that were given; fields of the others keep their defaults."""
    return {name: value for name, value in options.items() if value is not None and value != ()}


def finite(ctx: click.Context, param: click.Parameter, value: float | None) -> float | None:
    """Refuse `nan`, which passes every range, and `inf`, which JSON cannot represent."""
    if value is not None and not math.isfinite(value):
        raise click.BadParameter(f"{value} is not a finite number")
    return value


def _option(one: Field[Any], kind: Any, reader: Reader | None) -> Callable[[Command], Command]:
    details = dict(one.metadata)
    name = details.pop("name", one.name)
    known = details.pop("known", None)
    details |= {"type": Word(known)} if known else _of_type(kind)
    if reader is not None:
        details["type" if isinstance(reader, click.ParamType) else "callback"] = reader
    if isinstance(one.default, str | float | int) and one.default is not False:
        details |= {"default": one.default, "show_default": one.default != ""}
    return click.option(f"--{name.replace('_', '-')}", one.name, **details)


def _of_type(kind: Any) -> dict[str, Any]:
    """Return the arguments of `click.option` that a type stands for."""
    bounds = None
    if get_origin(kind) in (UnionType, Union):
        kind = next(part for part in get_args(kind) if part is not NoneType)
    if get_origin(kind) is Annotated:
        kind, bounds = get_args(kind)
    if kind is bool:
        return {"is_flag": True}
    if get_origin(kind) is Literal:
        return {"type": Word(get_args(kind))}
    if get_origin(kind) is not None:
        return {"multiple": True}
    if kind is Path:
        return {"type": click.Path(path_type=Path)}
    found: dict[str, Any] = {"type": kind}
    if bounds is not None:
        least = bounds.ge if bounds.gt is None else bounds.gt
        of = click.IntRange if kind is int else click.FloatRange
        found["type"] = of(least, bounds.le, min_open=bounds.gt is not None)
    return found | ({"callback": finite} if kind is float else {})
