"""The options of `mcp-bench record` as settings in a file: their keys, types and words on a command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import click
from pydantic import BeforeValidator, Field

from mcp_bench.bridge.engines.count_or_auto import CountOrAuto
from mcp_bench.servers.errors import WrongUseError

NOT_SETTINGS = frozenset({"as_json", "config", "config_schema", "dry_run", "resume"})
"""Parameters of `record` that say what it shall do, not how it shall record."""

Shape = Literal["one", "many", "pairs"]
"""Whether an option takes one value, is repeatable, or is repeatable with KEY=VALUE."""


@dataclass(frozen=True)
class Setting:
    """An option as a key of the file: `--max-cost` is `max-cost`."""

    key: str
    shape: Shape
    option: click.Option

    def words(self, value: Any, folder: Path) -> list[str]:
        """Return a value as on the command line. Files are relative to `folder`, or begin with `~`.

        Raises:
            WrongUseError: a file is standard input.
        """
        if value is None:
            return []
        if self.option.is_flag:
            return [f"--{self.key}"] if value else []
        if self.shape == "pairs":
            return [f"--{self.key}={name}={word}" for name, word in value.items() if word is not None]
        values = value if self.shape == "many" else [value]
        if isinstance(self.option.type, click.File | click.Path):
            if "-" in values:
                raise WrongUseError(f"{self.key}: -: standard input can be read only once. Name a file")
            values = [_place(folder, name) for name in values]
        return [f"--{self.key}={_beside(self.key, word_of(one), folder)}" for one in values]

    def field(self) -> tuple[Any, Any]:
        """Return the field of a pydantic model: type and details.

        An option that takes one value also accepts a list of them, of which each makes a cell.
        """
        if self.shape == "pairs":
            pairs: Any = dict
            kind = pairs[str, _several(_WORD)] | None
        elif self.shape == "many":
            kind = listed(str)
        else:
            kind = _several(_kind(self.option))
        return kind, Field(default=None, description=self.option.help)


def _place(folder: Path, name: str) -> str:
    try:
        return str(folder / Path(name).expanduser())
    except RuntimeError:  # there is no such user: it is a name like any other
        return str(folder / name)


def _beside(key: str, word: str, folder: Path) -> str:
    """Return a word whose option has no type of a file, although it may name one."""
    if key == "task" and word.startswith("@"):
        return f"@{_place(folder, word[1:])}"
    if key == "path" and Path(place := _place(folder, word)).is_dir():  # else a published data set
        return place
    if key == "benchmark" and ":" in word:  # NAME:FOLDER
        name, _, path = word.partition(":")
        if Path(place := _place(folder, path)).exists():
            return f"{name}:{place}"
    return word


def word_of(value: Any) -> str:
    """Return a value as on a command line: 60.0 is 60."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


@cache
def settings_of(command: click.Command) -> Mapping[str, Setting]:
    """Return the settings of `mcp-bench record`, by key."""
    found: dict[str, Setting] = {}
    for option in command.params:
        if isinstance(option, click.Option) and option.name not in NOT_SETTINGS:
            key = option.opts[0].removeprefix("--")
            shape: Shape = "one"
            if option.multiple:
                shape = "pairs" if "=" in (option.metavar or "") else "many"
            found[key] = Setting(key, shape, option)
    return found


def arguments(settings: Mapping[str, Setting], values: Mapping[str, Any], folder: Path) -> list[str]:
    """Return the arguments of `mcp-bench record` that say the same as `values`."""
    return [
        word
        for key, setting in settings.items()
        if key in values
        for word in setting.words(values[key], folder)
    ]


def unset(settings: Mapping[str, Setting], values: Mapping[str, Any], folder: Path) -> set[str | None]:
    """Return the parameters that `values` switch off: they are named, but no argument says so."""
    return {settings[key].option.name for key in values if not settings[key].words(values[key], folder)}


def _kind(option: click.Option) -> Any:
    """Return the type of an option's value, with the bounds that click checks."""
    if option.is_flag:
        return bool
    of = option.type
    if isinstance(of, click.Choice):
        literal: Any = Literal
        return literal[tuple(of.choices)]
    if isinstance(of, CountOrAuto):
        return Annotated[int, Field(ge=1)] | Literal["auto"]
    if isinstance(of, click.IntRange | click.FloatRange):
        number: Any = int if isinstance(of, click.IntRange) else float
        bounds: Any = {"gt" if of.min_open else "ge": of.min, "lt" if of.max_open else "le": of.max}
        return Annotated[
            number, Field(**{name: bound for name, bound in bounds.items() if bound is not None})
        ]
    return {"integer": int, "float": float}.get(of.name, str)


def _several(kind: Any) -> Any:
    values: Any = list
    either = kind | None | values[kind | None]
    return Annotated[
        values[kind | None], Field(min_length=1), BeforeValidator(_as_list, json_schema_input_type=either)
    ]


def listed(kind: Any) -> Any:
    """Return the type of a list of `kind` that can also be written as one value, or as `null`: empty."""
    values: Any = list
    either = kind | None | values[kind]
    return Annotated[values[kind], BeforeValidator(_as_list_or_none, json_schema_input_type=either)]


def _as_list(value: object) -> object:
    return value if isinstance(value, list) else [value]


def _as_list_or_none(value: object) -> object:
    return [] if value is None else _as_list(value)


def _word(value: object) -> object:
    return word_of(value) if isinstance(value, bool | int | float) else value


_WORD = Annotated[str, BeforeValidator(_word, json_schema_input_type=str | int | float | bool)]
