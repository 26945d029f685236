"""Rows with fewer tools: of those that a row does not call, a random number is left out.

Where a server has many tools, most of a row is their list, and it is the same in many rows. A shorter row
costs less, and a model that meets many lists has to read them.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from mcp_bench.trainer.recipe import Recipe
from mcp_bench.trainer.rows import Row, read_rows


def training_rows(recipe: Recipe, paths: Iterable[Path]) -> list[Row]:
    """Read the rows of a recipe, with the tools that it asks for; see `read_rows` for errors."""
    rows = read_rows(paths)
    if recipe.data.tools == "all":
        return rows
    return [with_fewer_tools(row, f"{recipe.training.seed} {at}") for at, row in enumerate(rows)]


def with_fewer_tools(row: Row, seed: str) -> Row:
    """Return the row without some of the tools that it does not call; the others stay in their order.

    How many stay is drawn log-uniformly between those that are called (at least one) and all, so that short
    lists are common, and lists of any length occur.
    """
    tools = row.tools or []
    called = {
        call["function"]["name"] for message in row.messages for call in message.get("tool_calls") or []
    }
    spare = [at for at, tool in enumerate(tools) if tool.get("function", tool).get("name") not in called]
    if not spare:
        return row
    draw = random.Random(seed)  # noqa: S311 - not for security
    least = max(1, len(tools) - len(spare))
    kept = round(math.exp(draw.uniform(math.log(least), math.log(len(tools)))))
    dropped = set(draw.sample(spare, min(len(tools) - kept, len(spare))))
    return replace(row, tools=[tool for at, tool in enumerate(tools) if at not in dropped])
