"""Other lists of tools for training rows: with fewer tools, or with names that say nothing.

Where a server has many tools, most of a row is their list, and it is the same in many rows. A model that
meets many lists has to read them. A shorter list costs less, too.
"""

from __future__ import annotations

import json
import math
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from mcp_bench.trainer.rows import Row

ALIKE = 4
"""So many rows with the same tools get the same new names, so that batches can share their beginning."""
TEXTS = ("content", "reasoning_content", "description")
LETTERS = ("bdfgklmnprstvz", "aeiou")


def with_fewer_tools(row: Row, seed: str) -> Row:
    """Return the row without some of the tools that it does not call; the others stay in their order.

    How many stay is drawn log-uniformly between those that are called (at least one) and all, so that short
    lists are common, and lists of any length occur.
    """
    tools = row.tools or []
    called = {
        call["function"]["name"] for message in row.messages for call in message.get("tool_calls") or []
    }
    spare = [at for at, tool in enumerate(tools) if _function(tool).get("name") not in called]
    if not spare:
        return row
    draw = random.Random(seed)  # noqa: S311 - not for security
    least = max(1, len(tools) - len(spare))
    kept = round(math.exp(draw.uniform(math.log(least), math.log(len(tools)))))
    dropped = set(draw.sample(spare, min(len(tools) - kept, len(spare))))
    return replace(row, tools=[tool for at, tool in enumerate(tools) if at not in dropped])


def shuffled(rows: Sequence[Row], seed: int) -> list[Row]:
    """Return the rows with their tools in random order; those with the same tools in groups, see `ALIKE`."""
    return [
        replace(row, tools=draw.sample(row.tools, len(row.tools))) if row.tools else row
        for row, draw in zip(rows, _draws(rows, seed), strict=True)
    ]


def with_masked_names(rows: Sequence[Row], share: float, seed: int) -> list[Row]:
    """Return the rows; in a share of them, tools have random names.

    A model then cannot know a tool by its name and has to read what it does. This is function masking
    (Hammer, https://arxiv.org/abs/2410.04587). Tools without a description keep their names, and so do
    arguments. Errors name tools anew. So do instructions, answers and descriptions, if the name cannot be a
    word: a text about moves may well say "look". Other results stay, since later arguments repeat them.

    Args:
        rows: the rows; those with the same tools are changed in groups, see `ALIKE`.
        share: how many of the rows, from 0 to 1, on average.
        seed: decides which rows, and on the names.
    """
    drawn = zip(rows, _draws(rows, seed), strict=True)
    return [_renamed(row, draw) if draw.random() < share else row for row, draw in drawn]


def _draws(rows: Iterable[Row], seed: int) -> Iterator[random.Random]:
    """Yield a source of random numbers for each row, the same for neighbours with the same tools."""
    seen: Counter[str] = Counter()
    for row in rows:
        tools = json.dumps(row.tools, sort_keys=True)
        yield random.Random(f"{seed} {seen[tools] // ALIKE} {tools}")  # noqa: S311 - not for security
        seen[tools] += 1


def _renamed(row: Row, draw: random.Random) -> Row:
    functions = [_function(tool) for tool in row.tools or []]
    if not row.tools or not all(isinstance(one.get("name"), str) for one in functions):
        return row
    taken = {str(name) for one in functions for name in (one.get("name"), *_properties(one))}
    tools = {one["name"]: _word(draw, taken) for one in functions if one.get("description")}
    certain = {name: new for name, new in tools.items() if not _may_be_a_word(name)}
    words: dict[str, str] = {}  # of arguments
    arguments: dict[str, dict[str, str]] = {}
    for one in functions:
        clear = [name for name, schema in _properties(one).items() if _is_clear(schema)]
        for name in clear:
            words[name] = words.get(name) or _word(draw, taken)
        arguments[one["name"]] = {name: words[name] for name in clear}

    def function(one: dict[str, Any]) -> dict[str, Any]:
        new = arguments[one["name"]]
        found = {**_described(one, certain), "name": tools.get(one["name"], one["name"])}
        if new:
            schema = found["parameters"]
            found["parameters"] = {**schema, "properties": _keys(schema["properties"], new)}
            if isinstance(schema.get("required"), list):  # some servers write null
                found["parameters"]["required"] = [new.get(name, name) for name in schema["required"]]
        return found

    def call(one: dict[str, Any]) -> dict[str, Any]:
        name = one["name"]
        return {
            **one,
            "name": tools.get(name, name),
            "arguments": _keys(one["arguments"], arguments.get(name, {})),
        }

    def message(one: dict[str, Any]) -> dict[str, Any]:
        result, error = one.get("role") == "tool", one.get("is_error")
        found = _named(one, tools if error else {} if result else certain)
        if "name" in one:
            found["name"] = tools.get(one["name"], one["name"])
            if error:
                found = _named(found, arguments.get(one["name"], {}))
        if calls := one.get("tool_calls"):
            found["tool_calls"] = [{**each, "function": call(each["function"])} for each in calls]
        return found

    listed = [
        {**tool, "function": function(tool["function"])} if "function" in tool else function(tool)
        for tool in row.tools
    ]
    return replace(row, tools=listed, messages=[message(one) for one in row.messages])


def _properties(function: dict[str, Any]) -> dict[str, Any]:
    """Return the schemas of a tool's arguments by name."""
    parameters = function.get("parameters")
    found = parameters.get("properties") if isinstance(parameters, dict) else None
    return found if isinstance(found, dict) else {}


def _is_clear(schema: object) -> bool:
    """Return whether it is clear what an argument with this schema is, without its name."""
    return isinstance(schema, dict) and ("enum" in schema or "description" in schema)


def _may_be_a_word(name: str) -> bool:
    """Return whether a text can have this name as a word: it has letters only, and no capitals inside."""
    letters = name.replace("-", "")  # as in sign-up
    return letters.isalpha() and letters[1:] in (letters[1:].lower(), letters[1:].upper())


def _keys(values: dict[str, Any], new: dict[str, str]) -> dict[str, Any]:
    return {new.get(key, key): value for key, value in values.items()}


def _described(one: Any, new: dict[str, str]) -> Any:
    """Return a tool, or a part of its schema, with the new names in all descriptions."""
    if isinstance(one, list):
        return [_described(part, new) for part in one]
    if not isinstance(one, dict):
        return one
    return _named({key: _described(part, new) for key, part in one.items()}, new)


def _named(one: dict[str, Any], new: dict[str, str]) -> dict[str, Any]:
    """Return an object whose texts have the new names in place of the old ones."""
    texts = {key: one[key] for key in TEXTS if isinstance(one.get(key), str)}
    if not new or not texts:
        return dict(one)
    old = "|".join(map(re.escape, sorted(new, key=len, reverse=True)))
    names = re.compile(rf"(?<!\w)(?:{old})(?!\w)")
    return {**one, **{key: names.sub(lambda at: new[at[0]], text) for key, text in texts.items()}}


def _word(draw: random.Random, taken: set[str]) -> str:
    """Return a new word of two syllables twice, such as `dovi_kanu`, and add it to those that are taken."""
    while True:
        word = "_".join("".join(draw.choice(LETTERS[at % 2]) for at in range(4)) for _ in range(2))
        if word not in taken:
            taken.add(word)
            return word


def _function(tool: dict[str, Any]) -> dict[str, Any]:
    found = tool.get("function", tool)
    return found if isinstance(found, dict) else {}
