"""The cells of a matrix: every combination of its agents, tasks and listed values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import product
from math import prod
from typing import Any

from mcp_bench.bridge.matrix.settings import Setting, word_of
from mcp_bench.bridge.model_endpoint.url import is_http_url, without_secrets

Settings = Mapping[str, Setting]
Values = Mapping[str, Any]
"""Values by key. In the file, what takes one value has a list of alternatives; in a cell, one of them."""

MOST_CELLS = 10_000
AGENT_KEYS = ("agent", "agent-command", "model", "agent-option")
TASK_KEYS = ("benchmark", "split", "tag", "task", "server")
"""The keys whose values name the cells of an entry without a name. They need no key beside them."""


class RefusedError(Exception):
    """Something in the file makes no sense; `place` says where."""

    def __init__(self, text: str, *place: str | int) -> None:
        super().__init__(text)
        self.place = place


@dataclass(frozen=True)
class Cell:
    """One combination: the settings of one run."""

    name: str
    values: Values
    """None, or an empty list, is an option that the file unsets."""
    place: tuple[str | int, ...]
    """The entry of the file that it comes from."""


def cells_of(content: Mapping[str, Any], settings: Settings) -> list[Cell]:
    """Return the cells of a file.

    The values of a cell are those under `record`, then those of its entry of `tasks`, then those of its entry
    of `agents`, and last those of `overrides`. A later value replaces an earlier one, but KEY=VALUE options
    are joined.

    Args:
        content: A valid file.
        settings: The options of `record`.

    Raises:
        RefusedError: there is no cell, two are the same, or an entry of `exclude` or `overrides` fits none.
    """
    found = list(_combinations(content, settings))
    for number, condition in enumerate(content.get("exclude", [])):
        left = [cell for cell in found if not _fits(cell, condition, settings)]
        if len(left) == len(found):
            raise RefusedError("no cell fits, or all that do are excluded already", "exclude", number)
        found = left
    values = [dict(cell.values) for cell in found]
    for number, override in enumerate(content.get("overrides", [])):
        changes = _single(override["record"], settings, number)
        # conditions look at the cells as they were combined, so the order of overrides decides nothing else
        fitting = [at for at, cell in enumerate(found) if _fits(cell, override["where"], settings)]
        if not fitting:
            raise RefusedError("no cell fits", "overrides", number, "where")
        for at in fitting:
            values[at] = _merged(values[at], changes)
    cells = [Cell(cell.name, own, cell.place) for cell, own in zip(found, values, strict=True)]
    _check(cells)
    return cells


def _combinations(content: Mapping[str, Any], settings: Settings) -> Iterator[Cell]:
    shared = content.get("record") or {}
    made = 0
    for number, agent in enumerate(content.get("agents") or [{}]):
        place = ("agents", number) if content.get("agents") else ("record",)
        for task in content.get("tasks") or [{}]:
            merged = _merged(_merged(shared, _unnamed(task)), _unnamed(agent))
            made += prod(len(alternatives) for _, _, alternatives in _axes(merged, settings))
            if made > MOST_CELLS:
                raise RefusedError(f"these are more than {MOST_CELLS} cells")
            for values in _expanded(merged, settings):
                yield Cell(_name(values, merged, agent, task, settings), values, place)


def _unnamed(entry: Values) -> Values:
    return {key: value for key, value in entry.items() if key != "name"}


def _merged(values: Values, later: Values) -> dict[str, Any]:
    joined = dict(values)
    for key, value in later.items():
        both = isinstance(value, dict) and isinstance(values.get(key), dict)
        joined[key] = {**values[key], **value} if both else value
    return joined


def _axes(values: Values, settings: Settings) -> Iterator[tuple[str, str | None, Sequence[Any]]]:
    """Yield key, name of a KEY=VALUE option, and alternatives, of all that takes one value."""
    order = dict.fromkeys([*AGENT_KEYS, *TASK_KEYS, *settings])
    for key in order:
        value = values.get(key)
        if isinstance(value, dict):
            yield from ((key, name, words) for name, words in value.items())
        elif value is not None and settings[key].shape == "one":
            yield key, None, value


def _expanded(values: Values, settings: Settings) -> Iterator[dict[str, Any]]:
    """Yield the values for each combination of alternatives."""
    axes = list(_axes(values, settings))
    alone = {key: value for key, value in values.items() if settings[key].shape == "many" or value is None}
    for chosen in product(*(alternatives for _, _, alternatives in axes)):
        found = dict[str, Any](alone)
        for (key, name, _), value in zip(axes, chosen, strict=True):
            if name is None:
                found[key] = value
            else:
                found[key] = {**found.get(key, {}), name: value}
        yield found


def _single(values: Values, settings: Settings, number: int) -> Values:
    """Return the values of an override, which has no alternatives: it makes no cells."""
    for key, name, alternatives in _axes(values, settings):
        if len(alternatives) > 1:
            inner = () if name is None else (name,)
            raise RefusedError("an override has one value", "overrides", number, "record", key, *inner)
    return next(_expanded(values, settings))


def _fits(cell: Cell, condition: Values, settings: Settings) -> bool:
    return all(_has(cell, key, wanted, settings) for key, wanted in condition.items())


def _has(cell: Cell, key: str, wanted: Any, settings: Settings) -> bool:
    if key == "cell":
        # names of models have brackets, which are no sets of letters here
        return any(fnmatchcase(cell.name, pattern.replace("[", "[[]")) for pattern in wanted)
    if not wanted:  # `null`, of an option that is repeatable: the cells without it
        return not cell.values.get(key)
    if isinstance(wanted, dict):
        own = cell.values.get(key) or {}
        return all(own.get(name) in words for name, words in wanted.items())
    if settings[key].shape == "many":
        return not set(wanted).isdisjoint(cell.values.get(key, ()))
    value, default = cell.values.get(key), settings[key].option.default
    return (default if value is None and isinstance(default, str | int | float) else value) in wanted


def _name(values: Values, merged: Values, agent: Values, task: Values, settings: Settings) -> str:
    """Return a cell's name: the names of its entries, or their values, and its values from lists."""
    listed = {(key, name) for key, name, alternatives in _axes(merged, settings) if len(alternatives) > 1}
    parts: list[str] = []
    for entry, keys in ((agent, AGENT_KEYS), (task, TASK_KEYS)):
        name = entry.get("name")
        parts += [name] if name else []
        shown = set() if name else {*entry, "agent"}
        for key in keys:
            parts += _words(key, values.get(key), listed, in_full=key in shown)
    for key in settings:
        if key not in AGENT_KEYS + TASK_KEYS:
            parts += (f"{key}={word}" for word in _words(key, values.get(key), listed, in_full=False))
    return " ".join(parts)


def _words(key: str, value: Any, listed: set[tuple[str, str | None]], *, in_full: bool) -> Iterator[str]:
    """Yield the words of a value that belong to a cell's name."""
    if isinstance(value, dict):
        pairs = ((name, word) for name, word in value.items() if word is not None)
        yield from (f"{name}={word}" for name, word in pairs if in_full or (key, name) in listed)
    elif isinstance(value, list):
        if in_full and value:
            yield value[0] + (f" +{len(value) - 1}" if len(value) > 1 else "")
    elif value is not None and (in_full or (key, None) in listed):
        word = word_of(value)
        yield without_secrets(word) if is_http_url(word) else word  # a name is printed, and stored


def _check(cells: Sequence[Cell]) -> None:
    if not cells:
        raise RefusedError("every cell is excluded", "exclude")
    known: dict[str, Cell] = {}
    for cell in cells:
        twin = known.setdefault(cell.name, cell)
        if twin is not cell:
            why = (
                "are the same" if twin.values == cell.values else "have the same name: give entries a `name`"
            )
            raise RefusedError(f"two cells {why} ({cell.name})", *cell.place)
