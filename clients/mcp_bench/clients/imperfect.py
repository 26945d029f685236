"""Make a perfect attempt worse: leave calls out, change an argument, or make them wrongly at first.

All choices follow from the seed and the calls, so an attempt can be reproduced.
"""

from __future__ import annotations

import copy
import json
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Call:
    name: str
    arguments: dict[str, Any] = field(default_factory=dict)


def worsen(
    calls: Sequence[Call],
    *,
    drop: float = 0.0,
    spoil: float = 0.0,
    seed: int | str = 0,
    schemas: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[Call]:
    """Return `calls` without a share `drop` of them, and with a share `spoil` of them changed.

    The numbers are rounded up or down at random, so that the shares hold over many attempts even if each has
    few calls. Calls without an argument that can change are never spoiled.

    Args:
        schemas: JSON Schema of each tool by name; a changed value stays within its `enum`.
    """
    text = json.dumps([[call.name, call.arguments] for call in calls], sort_keys=True)
    chance = random.Random(f"{seed} {text}")  # noqa: S311 - not a secret
    dropped = set(chance.sample(range(len(calls)), _count(drop, len(calls), chance)))
    kept = [index for index in range(len(calls)) if index not in dropped]
    result = {index: calls[index] for index in kept}
    wanted = _count(spoil, len(calls), chance)
    for index in chance.sample(kept, len(kept)):
        if wanted == 0:
            break
        call = calls[index]
        spoiled = _spoil(call.arguments, (schemas or {}).get(call.name, {}), chance)
        if spoiled is not None:
            result[index] = Call(call.name, spoiled)
            wanted -= 1
    return [result[index] for index in kept]


def with_slips(
    calls: Sequence[Call], *, slips: float, seed: int | str = 0, schemas: Mapping[str, Mapping[str, Any]]
) -> list[Call]:
    """Return `calls` with a wrong call of the same tool before a share `slips` of them.

    A wrong call has an argument that only other tools know, or lacks one that the tool needs: what small
    models do with a tool that is new to them. The tool's schema refuses it, so it changes nothing, and the
    right call after it is the repair.

    Args:
        calls: the right calls.
        slips: the share, rounded up or down at random as in `worsen`.
        seed: decides, with the calls, which calls and what is wrong.
        schemas: JSON Schema of each tool by name. Calls without a schema that could refuse them stay alone.
    """
    text = json.dumps([[call.name, call.arguments] for call in calls], sort_keys=True)
    chance = random.Random(f"slips {seed} {text}")  # noqa: S311 - not a secret
    wanted, wrong = _count(slips, len(calls), chance), dict[int, Call]()
    for index in chance.sample(range(len(calls)), len(calls)):
        if len(wrong) < wanted and (slip := _slip(calls[index], schemas, chance)) is not None:
            wrong[index] = slip
    return [made for index, call in enumerate(calls) for made in (wrong.get(index), call) if made is not None]


def _slip(call: Call, schemas: Mapping[str, Mapping[str, Any]], chance: random.Random) -> Call | None:
    """Return a call that the tool's schema refuses, or None if there is none."""
    schema = schemas.get(call.name, {})
    own = schema.get("properties", {})
    needed = sorted(set(schema.get("required", ())) & set(call.arguments))
    foreign: dict[str, Any] = {}
    if schema.get("additionalProperties") is False:
        for name in sorted(schemas):
            others = schemas[name].get("properties", {})
            foreign |= {key: about for key, about in others.items() if key not in own}
    ways = [way for way, possible in (("extra", foreign), ("missing", needed)) if possible]
    if not ways:
        return None
    arguments = copy.deepcopy(call.arguments)
    if chance.choice(ways) == "extra":
        key = chance.choice(sorted(foreign))
        return Call(call.name, {**arguments, key: _plausible(foreign[key], call.arguments, chance)})
    del arguments[chance.choice(needed)]
    return Call(call.name, arguments)


def _plausible(schema: Any, arguments: Mapping[str, Any], chance: random.Random) -> Any:
    """Return a value for an argument: one of its choices, or of its type."""
    schema = schema if isinstance(schema, dict) else {}
    if enum := schema.get("enum"):
        return chance.choice(enum)
    kind = schema.get("type")
    if kind in ("integer", "number"):
        return chance.randint(1, 10)
    if kind == "boolean":
        return True
    if kind == "array":
        return []
    if kind == "object":
        return {}
    texts = [value for value in arguments.values() if isinstance(value, str)]
    return chance.choice(texts) if texts else "new"


def _count(share: float, total: int, chance: random.Random) -> int:
    return int(share * total + chance.random())


def _spoil(
    arguments: dict[str, Any], schema: Mapping[str, Any], chance: random.Random
) -> dict[str, Any] | None:
    """Return the arguments with one value changed, or None if none can change."""
    properties = schema.get("properties", {})
    for key in chance.sample(sorted(arguments), len(arguments)):
        enum = properties.get(key, {}).get("enum") if isinstance(properties.get(key), dict) else None
        value = arguments[key]
        changed = _other(enum, value, chance) if enum else changed_value(value, chance)
        if changed is not None:
            return {**copy.deepcopy(arguments), key: changed}
    return None


def _other(enum: Sequence[Any], value: Any, chance: random.Random) -> Any:
    others = [item for item in enum if item != value and type(item) is type(value)]
    return chance.choice(others) if others else None


def changed_value(value: Any, chance: random.Random) -> Any:
    """Return a value near `value`, of the same type but different, or None if there is none."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + chance.choice((-1, 1, 10))
    if isinstance(value, float):
        return value + 1.0 if abs(value) < 1e6 else value / 2
    if isinstance(value, str):
        return _changed_text(value, chance)
    if isinstance(value, list) and value:
        if len(value) > 1:
            gone = chance.randrange(len(value))
            return copy.deepcopy(value[:gone] + value[gone + 1 :])
        inner = changed_value(value[0], chance)
        return None if inner is None else [inner]
    if isinstance(value, dict):
        return _spoil(value, {}, chance)
    return None


def _changed_text(text: str, chance: random.Random) -> str:
    """Change a digit if there is one (dates, amounts, ids), else double a letter."""
    digits = [match.start() for match in re.finditer("[0-9]", text)]
    if digits:
        at = digits[-1]
        return f"{text[:at]}{(int(text[at]) + 1) % 10}{text[at + 1 :]}"
    letters = [index for index, letter in enumerate(text) if letter.isalpha()]
    if not letters:
        return f"{text}x"
    at = chance.choice(letters)
    return text[: at + 1] + text[at:]
