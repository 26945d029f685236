"""All settings of a recipe, read from its classes.

`python -m mcp_bench.trainer.recipe_settings` prints `docs/reference/recipe-settings.md`; `make docs`
writes it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mcp_bench.servers.errors import UnknownNameError
from mcp_bench.trainer.recipe import Recipe

WHOLE = ("Architecture",)
"""Sections that are one setting here: their keys are those of transformers' configurations."""
LIMITS = {
    "exclusiveMinimum": "above",
    "minimum": "at least",
    "exclusiveMaximum": "below",
    "maximum": "at most",
}
TYPES = {"integer": "integer", "number": "number", "boolean": "true or false", "string": "text"}


@dataclass(frozen=True)
class Setting:
    """One key of a recipe."""

    key: str
    """With its sections, as `--set` takes it: `rl.guards.cut`."""
    values: str
    """What it may be."""
    default: str
    """As YAML; `required` if there is none."""
    description: str


def settings(prefix: str = "") -> list[Setting]:
    """Return the settings whose key is `prefix`, or which are in the section `prefix`; by default all.

    Raises:
        UnknownNameError: there is none.
    """
    schema = Recipe.model_json_schema()
    every = list(_keys(schema, schema["$defs"], ""))
    found = [one for one in every if not prefix or f"{one.key}.".startswith(f"{prefix}.")]
    if not found:
        parts = [one.key.split(".") for one in every]
        known = {".".join(part[:size]) for part in parts for size in range(1, len(part) + 1)}
        raise UnknownNameError("setting", prefix, sorted(known), see="mcp-bench train settings")
    return found


def _keys(section: dict[str, Any], sections: dict[str, Any], before: str) -> Iterator[Setting]:
    for name, field in section["properties"].items():
        name_of_section = _section(field)
        if name_of_section is not None and name_of_section not in WHOLE:
            yield from _keys(sections[name_of_section], sections, f"{before}{name}.")
            continue
        optional = name not in section.get("required", ())
        yield Setting(
            f"{before}{name}",
            "sizes" if name_of_section else _values(field),
            _shown(field.get("default")) if optional else "required",
            " ".join(field.get("description", "").split()),
        )


def _section(field: dict[str, Any]) -> str | None:
    """Return the name of the section that a field holds."""
    for option in (field, *field.get("anyOf", ())):
        if "$ref" in option:
            return str(option["$ref"].rsplit("/", 1)[1])
    return None


def _values(field: dict[str, Any]) -> str:
    options = field.get("anyOf", [field])
    if "enum" in field:
        return ", ".join(_shown(value) for value in field["enum"])
    [kind] = [option for option in options if option["type"] != "null"]
    if kind["type"] == "array":
        return f"list: {_values(kind['items'])}"
    limits = [f"{word} {_shown(kind[limit])}" for limit, word in LIMITS.items() if limit in kind]
    return " ".join([TYPES[kind["type"]], *limits])


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else json.dumps(value)


HEADER = """# Settings of a recipe

Set a key in a copy of a recipe, or with `--set rl.guards.cut=0.5`. `mcp-bench train settings rl.guards`
prints a part of this page. `make docs` writes it from the code; a test compares the two.
"""


def page() -> str:
    """Return the reference as Markdown."""
    lines = [HEADER]
    shown = None
    for one in settings():
        section = one.key.rpartition(".")[0]
        if section != shown:
            title = f"`{section}`" if section else "The recipe"
            lines += [f"\n## {title}\n", "| key | values | default | what |", "|---|---|---|---|"]
            shown = section
        cells = (f"`{one.key}`", one.values, one.default, one.description)
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(page(), end="")
