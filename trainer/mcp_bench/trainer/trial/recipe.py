"""Prepare the recipe of a trial, which runs on this machine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from mcp_bench.servers.errors import BenchError, WrongUseError
from mcp_bench.trainer.architectures.base_config import is_gguf
from mcp_bench.trainer.bases import KNOWN
from mcp_bench.trainer.launch import nodes
from mcp_bench.trainer.recipe import Recipe, load_recipe, recipe_text
from mcp_bench.trainer.refusals import refusals, refusals_here, refuse
from mcp_bench.trainer.serving.checkpoint import is_adapter, read_checkpoint
from mcp_bench.trainer.serving.families import choose_parsers, with_tools
from mcp_bench.trainer.sft.model import check_weights


def trial_recipe(name: str, overrides: Iterable[str], *, serves_base: bool = True) -> str:
    """Return the text of a recipe with its overrides, to store beside the results.

    A base model from the Hub is downloaded and replaced by its folder, which is checked: attempts can be paid
    for before it is loaded.

    Args:
        name: the recipe.
        overrides: values of it, as KEY=VALUE.
        serves_base: whether the base is measured as well.

    Raises:
        UnknownNameError: there is no such recipe.
        WrongUseError: the recipe is invalid or cannot work here, or its base lacks a part, or has to be
            fetched or converted.
        BenchError: the base model cannot be downloaded.
    """
    _, recipe = load_recipe(name, overrides)
    refuse([*refusals(recipe), *refusals_here(recipe), *_too_far(recipe)])
    source = recipe.model
    if source.base is not None:
        folder = _folder(source.base)
        check_weights(str(folder))
        if serves_base and not is_adapter(folder):
            choose_parsers(with_tools(read_checkpoint(folder)), None, None)
        source = source.model_copy(update={"base": str(folder)})
    return recipe_text(recipe.model_copy(update={"model": source}))


def as_measured(overrides: Sequence[str], *, constrain_calls: bool) -> Sequence[str]:
    """Return overrides of a recipe with which attempts are held to schemas where measurements are.

    An override of the user's own comes later, and wins.
    """
    return ["rl.constrain_calls=true", *overrides] if constrain_calls else overrides


def _too_far(recipe: Recipe) -> Iterator[str]:
    if (machines := nodes(recipe)) > 1:
        yield (
            f"its {recipe.hardware.devices} devices need {machines} machines, but this command uses one "
            "machine. Run the steps one by one, with the command that `mcp-bench train plan` prints"
        )


def _folder(base: str) -> Path:
    if Path(base).is_dir():
        return Path(base)
    if base in KNOWN:
        raise WrongUseError(f"{base} is not on this machine yet. Fetch it with: mcp-bench train base {base}")
    if is_gguf(base):
        raise WrongUseError(
            f"model.base {base} is a GGUF file, and this command also serves the base: convert the file once "
            f"with `mcp-bench train base {base} --name NAME`, and set model.base=NAME"
        )
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(base))
    except Exception as error:  # Hub, network and disk raise different types
        raise BenchError(f"model.base {base} is not a folder and cannot be downloaded: {error}") from error
