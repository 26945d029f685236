"""The file of a matrix as a pydantic model, made from the options of `mcp-bench record`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, Any

import click
from pydantic import BaseModel, ConfigDict, Field, create_model

from mcp_bench.bridge.matrix.settings import Setting, listed, settings_of

SCHEMA = "https://json-schema.org/draft/2020-12/schema"
SECTION = ConfigDict(
    extra="forbid",
    strict=True,
    frozen=True,
    allow_inf_nan=False,
    alias_generator=lambda name: name.replace("_", "-"),
)
_Name = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[\w.-]+$")]


@cache
def file_model(command: click.Command) -> type[BaseModel]:
    """Return the model of the file, from the options of `mcp-bench record`."""
    settings = settings_of(command)
    fields: Any = {key.replace("-", "_"): setting.field() for key, setting in settings.items()}
    options = create_model(
        "Options",
        __config__=SECTION,
        __doc__="Options of `mcp-bench record`. A list in place of one value makes a cell for each.",
        **fields,
    )
    entry = create_model(
        "Entry",
        __base__=options,
        name=(
            Annotated[str, Field(min_length=1, max_length=100)] | None,
            Field(default=None, description="What its cells are called. Default: its values."),
        ),
    )
    condition = create_model(
        "Condition",
        __base__=options,
        __doc__="The cells that have all of these values. A list means any of its values.",
        cell=(
            listed(str),
            Field(
                default=None, description="Names of cells, as --dry-run shows them; * stands for any text."
            ),
        ),
    )
    override = create_model(
        "Override",
        __config__=SECTION,
        where=(condition, Field(description="The cells to change.")),
        record=(options, Field(description="Options for these cells, one value each.")),
    )
    several: Any = list
    return create_model(
        "Matrix",
        __config__=SECTION,
        name=(_Name, Field(description="Name of the matrix, which is stored with its runs.")),
        max_cost=(
            Annotated[float, Field(gt=0)] | None,
            Field(default=None, description="Cost limit in US dollars for all cells together."),
        ),
        record=(options | None, Field(default=None, description="Options for every cell.")),
        agents=(several[entry], Field(default=[], description="Options for the cells of each agent.")),
        tasks=(several[entry], Field(default=[], description="Options for the cells of each set of tasks.")),
        exclude=(several[condition], Field(default=[], description="Cells to leave out.")),
        overrides=(several[override], Field(default=[], description="Options for some cells.")),
    )


def json_schema(command: click.Command) -> dict[str, Any]:
    """Return the JSON schema of the file, for editors."""
    schema = file_model(command).model_json_schema()
    return {"$schema": SCHEMA, **schema, "title": "A matrix of mcp-bench"}


def keys_at(settings: Mapping[str, Setting], place: Sequence[str | int]) -> Sequence[str]:
    """Return the keys of the section at a place of the file, such as `("agents", 0)`."""
    options = list(settings)
    match [part for part in place if isinstance(part, str)]:
        case []:
            return ["name", "max-cost", "record", "agents", "tasks", "exclude", "overrides"]
        case ["agents" | "tasks"]:
            return ["name", *options]
        case ["exclude"] | ["overrides", "where"]:
            return ["cell", *options]
        case ["overrides"]:
            return ["where", "record"]
        case _:
            return options
