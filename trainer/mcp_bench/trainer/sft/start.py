"""Start or resume a training run: everything is checked before a model is loaded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from mcp_bench.servers.errors import WrongUseError
from mcp_bench.trainer.data import NothingToTrainOnError, prepare
from mcp_bench.trainer.folders import fresh
from mcp_bench.trainer.recipe import Recipe, load_recipe, stem
from mcp_bench.trainer.refusals import refusals, refusals_here, refuse
from mcp_bench.trainer.rows import read_rows
from mcp_bench.trainer.sft import processes
from mcp_bench.trainer.sft.model import check_weights
from mcp_bench.trainer.sft.run_folder import SFT, RunFolder
from mcp_bench.trainer.sft.train import Ready, make_ready
from mcp_bench.trainer.templates import check_templates

MakeReady = Callable[[Recipe, str, Sequence[Path]], Ready]
"""See `mcp_bench.trainer.sft.train.make_ready`."""


def begin(
    recipe: str,
    data: Sequence[Path],
    tokenizer: str | None,
    overrides: Sequence[str],
    out: Path | None,
    method: str = SFT,
    make: MakeReady = make_ready,
    held_out: Sequence[Path] = (),
) -> tuple[RunFolder, Ready]:
    """Check recipe and rows, and make the folder of a new run.

    Args:
        recipe: name of a built-in recipe, or path of a YAML file.
        data: files with rows.
        tokenizer: folder or Hub name. Default: the base model's.
        overrides: values of the recipe, as KEY=VALUE.
        out: the folder. Default: a new one in `$MCP_BENCH_HOME/training`.
        method: the command of `mcp-bench train` that trains.
        make: reads and checks the rows.
        held_out: files with rows to score.

    Raises:
        BenchError: recipe, rows or tokenizer cannot be used, or the folder is not empty.
    """
    if not data:
        raise WrongUseError("no rows to train on: write some with `mcp-bench export`, then pass --data FILE")
    _, loaded = load_recipe(recipe, overrides)
    name = tokenizer or loaded.model.tokenizer or loaded.model.base
    if name is None:
        raise WrongUseError(
            f"{recipe} has no base model: name one with --set model.base=MODEL "
            "(`mcp-bench train tiny-base` makes one). To train from random weights, use --tokenizer"
        )
    if out is None and processes.count() > 1:
        raise WrongUseError("training with several processes needs a common folder: use --out")
    check(loaded)
    ready = with_held_out(make(loaded, name, data), held_out)
    folder = RunFolder(out or new_folder(recipe))
    if processes.rank() == 0:
        folder.make(loaded, name, data, ready.prepared, method, held_out)
    return folder, ready


def again(folder: RunFolder, method: str = SFT, make: MakeReady = make_ready) -> Ready | None:
    """Return the checked input of a run that was stopped; None if it is complete.

    Raises:
        BenchError: the folder has no run, or its data changed.
    """
    loaded, name, sources, held_out = folder.read(method)
    if folder.model.is_dir():
        return None
    check(loaded)
    return with_held_out(make(loaded, name, sources), held_out)


def with_held_out(ready: Ready, sources: Sequence[Path]) -> Ready:
    """Return the input of a run with held-out rows from files. Their tools keep their names.

    Raises:
        BrokenRowsError: rows are malformed.
        NothingToTrainOnError: no row is left.
        TemplateSkewError: training and serving templates disagree.
        WrongUseError: a file cannot be read, or the recipe splits sequences over devices.
    """
    if not sources:
        return ready
    recipe = ready.recipe
    if recipe.hardware.context_parallel > 1:
        raise WrongUseError("--eval-data needs whole sequences: set hardware.context_parallel to 1")
    rows = read_rows(sources)
    check_templates(ready.tokenizer, ready.templates, rows)
    mask = recipe.data.failed_calls == "mask"
    try:
        found = prepare(rows, ready.tokenizer, ready.templates, recipe.data.max_length, mask_failed=mask)
    except NothingToTrainOnError as error:
        raise NothingToTrainOnError(f"--eval-data: {error}") from None
    return replace(ready, held_out=found)


def check(recipe: Recipe) -> None:
    """Refuse recipes that cannot work here, before any row is read."""
    if recipe.model.base is not None:
        check_weights(recipe.model.base)
    hardware, there = recipe.hardware, processes.count()
    here = refusals_here(recipe)
    if hardware.devices != there:
        here.append(
            f"hardware.devices is {hardware.devices}, but the number of processes is {there}. Start one "
            "process per device with the command that `mcp-bench train plan` prints, or set "
            f"hardware.devices={there}"
        )
    refuse([*refusals(recipe), *here])


def new_folder(recipe: str) -> Path:
    """Make a new folder for a run of a recipe."""
    return fresh("training", f"{stem(recipe)}-")
