"""Plan a training run without a GPU and without torch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp_bench.servers.errors import WrongUseError
from mcp_bench.trainer.data import Prepared
from mcp_bench.trainer.memory import (
    device_memory,
    device_tokens,
    host_memory,
    learning_memory,
    trained_parameters,
)
from mcp_bench.trainer.recipe import Recipe, load_recipe
from mcp_bench.trainer.refusals import learning_refusals, refusals


@dataclass(frozen=True)
class Plan:
    """The figures of a recipe. Memory is in bytes per device, for the longest row.

    Figures that need the data or its token counts are None without them.
    """

    recipe: str
    summary: str
    parameters: dict[str, int]
    trained: int
    memory: dict[str, int]
    device_bytes: int
    host_bytes: int
    devices: int
    sequences_per_step: int
    tokens_per_step: int
    device_tokens: int
    rows: int | None
    steps_per_epoch: int | None
    steps: int | None
    data: dict[str, Any] | None
    refused: list[str]
    learning: dict[str, int] | None = None
    """Memory of `train rl` with its engine; None if the recipe has no section `rl`."""

    @property
    def total(self) -> int:
        """Parameters of the model, without adapters."""
        return sum(self.parameters.values())

    @property
    def needed(self) -> int:
        return sum(self.memory.values())


def plan(name: str, recipe: Recipe, rows: int | None = None, prepared: Prepared | None = None) -> Plan:
    """Plan a recipe.

    A step has `sequences_per_step` rows, or packs of rows if the recipe packs. `tokens_per_step` is the upper
    bound, reached if every sequence has `max_length` tokens.

    Args:
        name: name of the recipe.
        recipe: the recipe.
        rows: number of rows, if known.
        prepared: the tokenised rows, if known.
    """
    per_step = recipe.sequences_per_step
    used = len(prepared.examples) if prepared else rows
    sequences = used
    if recipe.data.packing:
        # a lower bound: first-fit packing leaves some space unused
        sequences = math.ceil(prepared.tokens / recipe.data.max_length) if prepared else None
    epoch = math.ceil(sequences / per_step) if sequences is not None else None
    learns = "rl" in recipe.model_fields_set
    refused = refusals(recipe)
    if learns and used is None:  # with rows it imitates, as in `launch_line`
        refused = list(dict.fromkeys([*refused, *learning_refusals(recipe)]))
    return Plan(
        recipe=name,
        summary=recipe.summary,
        parameters=recipe.architecture.parameters(),
        trained=trained_parameters(recipe)[0],
        memory={str(part): size for part, size in device_memory(recipe).items()},
        device_bytes=int(recipe.hardware.memory_gib * 2**30),
        host_bytes=host_memory(recipe),
        devices=recipe.hardware.devices,
        sequences_per_step=per_step,
        tokens_per_step=per_step * recipe.data.max_length,
        device_tokens=device_tokens(recipe),
        rows=used,
        steps_per_epoch=epoch,
        steps=math.ceil(epoch * recipe.training.epochs) if epoch is not None else None,
        data=_data(prepared) if prepared else None,
        refused=refused,
        learning={str(part): size for part, size in learning_memory(recipe).items()} if learns else None,
    )


def plan_recipe(
    recipe: str, overrides: Sequence[str] = (), data: Sequence[Path] = (), tokenizer: str | None = None
) -> tuple[Recipe, Plan]:
    """Load a recipe and plan it, with the rows in files.

    Args:
        recipe: name of a built-in recipe, or path of a YAML file.
        overrides: values of the recipe, as KEY=VALUE.
        data: files with rows.
        tokenizer: folder or Hub name of the tokenizer that counts the tokens of the rows.

    Raises:
        WrongUseError: recipe, files or tokenizer cannot be used.
        BenchError: rows are malformed, or training and serving templates disagree.
        NothingToTrainOnError: no row is left.
    """
    if tokenizer is not None and not data:
        raise WrongUseError("--tokenizer needs rows to tokenise: pass them with --data")
    name, loaded = load_recipe(recipe, overrides)
    rows, prepared = _read(data, tokenizer, loaded) if data else (None, None)
    return loaded, plan(name, loaded, rows, prepared)


def _read(data: Sequence[Path], tokenizer: str | None, recipe: Recipe) -> tuple[int, Prepared | None]:
    if tokenizer is None:
        from mcp_bench.trainer.row_changes.training_rows import training_rows

        return len(training_rows(recipe, data)), None
    from mcp_bench.trainer.sft.train import make_ready

    prepared = make_ready(recipe, tokenizer, data).prepared
    return len(prepared.examples), prepared


def _data(prepared: Prepared) -> dict[str, Any]:
    return {
        "tokens": prepared.tokens,
        "trained_tokens": prepared.trained_tokens,
        "masked_tokens": prepared.masked_tokens,
        "longest": prepared.longest,
        "too_long": [{"place": place, "tokens": tokens} for place, tokens in prepared.too_long],
        "untrainable": prepared.untrainable,
        "unshown": prepared.unshown,
    }
