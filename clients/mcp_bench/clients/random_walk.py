"""A client that calls tools at random: the score without understanding.

echo "the task" | python -m mcp_bench.clients.random_walk --mcp-config FILE --calls 20 --seed 1

Arguments fit the tools' schemas; text in them is taken from the task and from earlier results.
"""

from __future__ import annotations

import argparse
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


def drawn(schema: object, seen: Sequence[str], chance: random.Random) -> Any:
    """Return a value for a JSON Schema: a member of an enum, a small number, or a word seen before."""
    schema = schema if isinstance(schema, dict) else {}  # `true` allows anything
    if schema.get("enum"):
        return chance.choice(schema["enum"])
    kind = schema.get("type", "string")
    if isinstance(kind, list):
        kind = chance.choice(kind)
    match kind:
        case "integer":
            return chance.randint(1, 100)
        case "number":
            return chance.randint(1, 5000)
        case "boolean":
            return chance.random() < 0.5
        case "array":
            return [drawn(schema.get("items"), seen, chance)]
        case "object":
            return drawn_object(schema, seen, chance)
        case "null":
            return None
    return chance.choice(seen) if seen else "text"


def drawn_object(schema: Mapping[str, Any], seen: Sequence[str], chance: random.Random) -> dict[str, Any]:
    """Return an object with every required property and some of the others."""
    required = schema.get("required", ())
    properties = schema.get("properties", {})
    names = [name for name in properties if name in required or chance.random() < OPTIONAL_SHARE]
    return {name: drawn(properties[name], seen, chance) for name in names}


async def wander(options: argparse.Namespace) -> None:
    task = read_stdin("the task")
    chance = random.Random(f"{drawing_key(options)} {task}")  # noqa: S311 - not a secret
    seen = WORD.findall(task)
    server = read_config(options.mcp_config, options.server)
    async with connect(server, options.connect_timeout) as connection:
        for number in range(options.calls if connection.tools else 0):
            tool = chance.choice(connection.tools)
            call = CalledTool(f"call_{number + 1}", tool.name, drawn_object(tool.schema, seen, chance))
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
