"""Read the rows of a recipe."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from mcp_bench.trainer.recipe import Recipe
from mcp_bench.trainer.row_changes.masked_values import with_masked_values
from mcp_bench.trainer.row_changes.tool_lists import shuffled, with_fewer_tools, with_masked_names
from mcp_bench.trainer.rows import Row, read_rows


def training_rows(recipe: Recipe, paths: Iterable[Path]) -> list[Row]:
    """Read the rows of a recipe, with the changes that it asks for; see `read_rows` for errors."""
    rows, seed = read_rows(paths), recipe.training.seed
    if recipe.data.tools == "sampled":
        rows = [with_fewer_tools(row, f"{seed} {at}") for at, row in enumerate(rows)]
    if recipe.data.tools == "shuffled":
        rows = shuffled(rows, seed)
    if recipe.data.masked_names:
        rows = with_masked_names(rows, recipe.data.masked_names, seed)
    if recipe.data.masked_values:
        rows = with_masked_values(rows, recipe.data.masked_values, seed)
    return rows
