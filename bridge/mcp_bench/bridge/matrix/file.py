"""Read the file of a matrix. Every fault names the line and the key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from pydantic import ValidationError

from mcp_bench.bridge.matrix.cells import Cell, RefusedError, cells_of
from mcp_bench.bridge.matrix.file_model import file_model, keys_at
from mcp_bench.bridge.matrix.settings import Setting, settings_of
from mcp_bench.servers.errors import WrongUseError, suggestion
from mcp_bench.servers.yaml_file import YamlFile, dashed, read_yaml


@dataclass(frozen=True)
class MatrixFile:
    """A file whose cells are complete combinations of settings. Nothing about them was checked yet."""

    path: Path
    name: str
    max_cost: float | None
    """US dollars for all cells together."""
    cells: tuple[Cell, ...]


def read_matrix(path: Path, command: click.Command) -> MatrixFile:
    """Read a file, whose settings are options of `command`: `mcp-bench record`.

    Raises:
        WrongUseError: it cannot be read, or something in it is wrong; the text has every fault.
    """
    file, settings = read_yaml(path, " (see `mcp-bench record --help`)"), settings_of(command)
    try:
        found = file_model(command).model_validate(_with_dashes(file.content))
        content = found.model_dump(by_alias=True, exclude_unset=True)
        cells = cells_of(content, settings)
    except ValidationError as error:
        faults = list(dict.fromkeys(_faults(file, error, settings)))
        more = [f"... and {len(faults) - 20} more"] if len(faults) > 20 else []
        raise WrongUseError("\n".join([*faults[:20], *more])) from error
    except RecursionError as error:
        raise WrongUseError(f"{path}: a section contains itself") from error
    except RefusedError as refused:
        where = f"{path}:{file.line(refused.place)}: {file.key(refused.place)}".removesuffix(": ")
        raise WrongUseError(f"{where}: {refused}") from refused
    return MatrixFile(path, content["name"], content.get("max-cost"), tuple(cells))


def _with_dashes(content: Any) -> Any:
    """Return the content with `-` in its own keys. Those of agents' options stay."""
    if isinstance(content, list):
        return [_with_dashes(item) for item in content]
    if not isinstance(content, dict):
        return content
    sections = ("record", "agents", "tasks", "exclude", "overrides", "where")
    return {dashed(key): _with_dashes(value) if key in sections else value for key, value in content.items()}


def _faults(file: YamlFile, error: ValidationError, settings: Mapping[str, Setting]) -> Iterator[str]:
    for fault in error.errors(include_url=False):
        place = fault["loc"]
        where = f"{file.path}:{file.line(place)}:"
        if fault["type"] == "extra_forbidden":
            known = keys_at(settings, place[:-1])
            near = suggestion(str(place[-1]), known) or ": see `mcp-bench record --help`"
            yield f"{where} {file.key(place)}: unknown key{near}"
        elif fault["type"] == "missing":
            section = file.key(place)
            yield f"{where} {section}{': ' if section else ''}the key {str(place[-1])!r} is missing"
        else:
            given = fault["input"]
            shown = "" if isinstance(given, Mapping | list) or given is None else f" (it is {given!r})"
            text = fault["msg"].replace("Input should be", "must be")
            hint = "; write it in quotes" if fault["type"] == "string_type" and shown else ""
            yield f"{where} {file.key(place)}: {text}{shown}{hint}"
