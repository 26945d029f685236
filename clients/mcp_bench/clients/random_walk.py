"""A client that calls tools at random: the score without understanding.

echo "the task" | python -m mcp_bench.clients.random_walk --mcp-config FILE --calls 20 --seed 1

Arguments fit the tools' schemas; text in them is taken from the task and from earlier results.
"""

from __future__ import annotations

import argparse
import math
import random
import re
from collections.abc import Mapping, Sequence
from typing import Any

from mcp_bench.clients.config import read_config
from mcp_bench.clients.connection import connect
from mcp_bench.clients.events import CalledTool, say_assistant, say_final, say_result
from mcp_bench.clients.process import add_drawing, drawing_key, parser, read_stdin, run

WORD = re.compile(r"[\w.@-]{3,}")
WORDS_PER_RESULT = 200
OPTIONAL_SHARE = 0.3
"""Probability of giving an optional argument."""
DEEPEST = 8
"""Levels of a schema after which nothing optional is given: a schema may contain itself."""


class Draw:
    """Draws values for JSON Schemas.

    Args:
        seen: words for texts; it may grow.
        chance: where chance comes from.
        definitions: the `$defs` that references name.
    """

    def __init__(
        self, seen: Sequence[str], chance: random.Random, definitions: Mapping[str, Any] | None = None
    ) -> None:
        self._seen, self._chance, self._definitions = seen, chance, definitions or {}

    def value(self, schema: object, depth: int = 0) -> Any:
        """Return a member of an enum, a small number, or a word seen before."""
        found = self._one_of(schema)
        if "const" in found:
            return found["const"]
        if found.get("enum"):
            return self._chance.choice(found["enum"])
        kind = found.get("type") or ("object" if "properties" in found else "string")
        if isinstance(kind, list):
            kind = self._chance.choice(kind)
        match kind:
            case "integer":
                return self._number(found, 100)
            case "number":
                return self._number(found, 5000)
            case "boolean":
                return self._chance.random() < 0.5
            case "array":
                wanted = max(found.get("minItems", 0), depth < DEEPEST)
                number = min(wanted, found.get("maxItems", wanted))
                return [self.value(found.get("items"), depth + 1) for _ in range(number)]
            case "object":
                return self.properties(found, depth)
            case "null":
                return None
        return self._chance.choice(self._seen) if self._seen else "text"

    def properties(self, schema: Mapping[str, Any], depth: int = 0) -> dict[str, Any]:
        """Return an object with every required property and some of the others."""
        required, known = schema.get("required", ()), schema.get("properties", {})
        share = OPTIONAL_SHARE if depth < DEEPEST else 0
        names = [name for name in known if name in required or self._chance.random() < share]
        return {name: self.value(known[name], depth + 1) for name in names}

    def _one_of(self, schema: object) -> Mapping[str, Any]:
        """Return a schema with one of its alternatives, and what its references name, in their place."""
        found = schema if isinstance(schema, dict) else {}  # `true` allows anything
        for _ in range(DEEPEST):  # a reference may name itself
            if isinstance(reference := found.get("$ref"), str):
                part = self._definitions.get(reference.rpartition("/")[2])
            elif alternatives := found.get("anyOf") or found.get("oneOf"):
                part = self._chance.choice(alternatives)
            else:
                break
            rest = {key: value for key, value in found.items() if key not in ("$ref", "anyOf", "oneOf")}
            found = {**rest, **part} if isinstance(part, dict) else rest
        return found

    def _number(self, schema: Mapping[str, Any], most: int) -> float:
        """Return a whole number from 1 to `most`, moved into the bounds if there are some."""
        low = schema.get("minimum", schema.get("exclusiveMinimum"))
        high = schema.get("maximum", schema.get("exclusiveMaximum"))
        above = 0 if "minimum" in schema else 1
        below = 0 if "maximum" in schema else 1
        last = math.inf if high is None else math.ceil(high) - 1 if below else math.floor(high)
        first = min(1, last) if low is None else math.floor(low) + 1 if above else math.ceil(low)
        if first > last:  # such as from 0.2 to 0.8
            return float(low + high) / 2
        return self._chance.randint(int(first), int(min(last, first + most - 1)))


def definitions(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the named parts of a schema, under their names in old and new drafts."""
    return {**schema.get("definitions", {}), **schema.get("$defs", {})}


async def wander(options: argparse.Namespace) -> None:
    task = read_stdin("the task")
    chance = random.Random(f"{drawing_key(options)} {task}")  # noqa: S311 - not a secret
    seen = WORD.findall(task)
    server = read_config(options.mcp_config, options.server)
    async with connect(server, options.connect_timeout) as connection:
        for number in range(options.calls if connection.tools else 0):
            tool = chance.choice(connection.tools)
            arguments = Draw(seen, chance, definitions(tool.schema)).properties(tool.schema)
            call = CalledTool(f"call_{number + 1}", tool.name, arguments)
            say_assistant(None, calls=[call])
            outcome = await connection.call(call.name, call.arguments)
            say_result(call, outcome.text, is_error=outcome.is_error)
            seen += WORD.findall(outcome.text)[:WORDS_PER_RESULT]
    say_final("")


def main() -> None:
    options = parser("random_walk", "Call tools at random.")
    options.add_argument("--calls", type=int, default=20, help="how many (default: 20)")
    add_drawing(options)
    chosen = options.parse_args()
    run(lambda: wander(chosen))


if __name__ == "__main__":
    main()
