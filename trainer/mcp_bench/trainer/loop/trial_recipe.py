"""The recipe of models that are trained, served and measured on this machine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from mcp_bench.servers.errors import BenchError
from mcp_bench.trainer.launch import nodes
from mcp_bench.trainer.recipe import Recipe, load_recipe, recipe_text
from mcp_bench.trainer.refusals import refuse


def trial_recipe(name: str, overrides: Iterable[str]) -> str:
    """Return the text of a recipe with what is put over it, to be kept beside what is made with it. A base
    that is a hub's name is downloaded, and named by its folder: it is served as well.

    Raises:
        UnknownNameError: no such recipe.
        WrongUseError: it is none, or cannot work here.
        BenchError: the base cannot be had.
    """
    _, recipe = load_recipe(name, overrides)
    refuse(recipe, _too_far(recipe))
    source = recipe.model
    if source.base is not None:
        source = source.model_copy(update={"base": str(_folder(source.base))})
    return recipe_text(recipe.model_copy(update={"model": source}))


def _too_far(recipe: Recipe) -> Iterator[str]:
    if (machines := nodes(recipe)) > 1:
        yield (
            f"its {recipe.hardware.devices} devices are on {machines} machines, and only those of this one "
            "are trained on here: take the steps one by one, with the line of `mcp-bench train plan`"
        )


def _folder(base: str) -> Path:
    if Path(base).is_dir():
        return Path(base)
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(base))
    except Exception as error:  # of the hub, the network, the disk: all of them mean one thing
        raise BenchError(f"model.base {base} is no folder, and no download either: {error}") from error
