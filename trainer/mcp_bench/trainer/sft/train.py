"""Trains a recipe on rows: checks first, then TRL's SFTTrainer, then a folder that can be served."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp_bench.servers.errors import BenchError, WrongUseError
from mcp_bench.trainer.data import Prepared
from mcp_bench.trainer.recipe import Recipe
from mcp_bench.trainer.sft import processes
from mcp_bench.trainer.sft.checkpoints import last_whole, number
from mcp_bench.trainer.sft.guards import DivergedError, LossGuard
from mcp_bench.trainer.sft.progress import Progress
from mcp_bench.trainer.sft.run_folder import RunFolder
from mcp_bench.trainer.templates import Templates

MEMORY_ERRORS = ("out of memory", "can't allocate memory", "not enough memory")
"""What torch says on a GPU, and on a CPU in its two ways."""


class OutOfMemoryError(BenchError):
    """One sequence alone does not fit."""


@dataclass(frozen=True)
class Ready:
    """What a run needs that is made once: rows as tokens, the tokenizer and its templates."""

    recipe: Recipe
    prepared: Prepared
    tokenizer: Any
    templates: Templates


@dataclass(frozen=True)
class Outcome:
    """How a run ended: after which step of how many, with the last loss."""

    step: int
    steps: int
    loss: float
    stopped: bool


def train(folder: RunFolder, ready: Ready, report_to: Sequence[str] = ()) -> Outcome:
    """Train until the end, or until a signal asks to stop; goes on from the last whole checkpoint.

    Where memory runs out, a device gets fewer sequences at once and accumulates more: the step stays the
    same.

    Raises:
        DivergedError: the loss is not finite, or explodes. The last good checkpoint stays.
        OutOfMemoryError: one sequence alone is too much.
    """
    training = ready.recipe.training
    sequences, accumulate = training.sequences_per_device, training.accumulate
    while True:
        try:
            return _attempt(folder, ready, sequences, accumulate, report_to)
        except (RuntimeError, MemoryError) as error:
            if not isinstance(error, MemoryError) and not any(word in str(error) for word in MEMORY_ERRORS):
                raise
            fewer = _fewer(sequences)
            if fewer is None or processes.count() > 1:
                raise OutOfMemoryError(_advice(ready, sequences)) from error
        accumulate = sequences * accumulate // fewer
        sequences = fewer
        _free_memory()
        _tell(f"out of memory: {sequences} sequences at once now, {accumulate} times a step")


def _attempt(
    folder: RunFolder, ready: Ready, sequences: int, accumulate: int, report_to: Sequence[str]
) -> Outcome:
    from transformers import PrinterCallback

    from mcp_bench.trainer.sft.interrupt import StopAfterStep
    from mcp_bench.trainer.sft.result import make_servable, save_result, stop_tokens

    recipe, examples = ready.recipe, ready.prepared.examples
    checkpoint = last_whole(folder.checkpoints)
    if processes.rank() == 0:
        folder.keep_metrics(number(checkpoint) if checkpoint else 0)
    stopping = StopAfterStep()
    progress = Progress(on_gpu=recipe.hardware.device != "cpu", shown=processes.rank() == 0)
    lengths = [len(example.tokens) for example in examples]

    def on_step(line: dict[str, Any], rows: Sequence[int]) -> None:
        # packed rows have no numbers; TRL counts their tokens, from the start of the run
        tokens = sum(lengths[row] for row in rows)
        figures = progress.step(line["step"], line["steps"], line["loss"], tokens)
        if processes.rank() == 0:
            with folder.metrics.open("a", encoding="utf-8") as file:
                file.write(json.dumps({**line, **figures}) + "\n")

    trainer = make_trainer(folder, ready, sequences, accumulate, report_to, on_step)
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(stopping)
    stops = stop_tokens(examples, ready.tokenizer)
    make_servable(trainer.model, ready.tokenizer, ready.templates, stops, recipe.generation)
    try:
        with stopping.listening():
            trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    except DivergedError as error:
        raise DivergedError(f"{error}. {_where_to_go(folder)}") from None
    finally:
        progress.close()
    state = trainer.state
    done = state.global_step >= state.max_steps
    if done:
        model = trainer.accelerator.unwrap_model(trainer.model)
        weights = trainer.accelerator.get_state_dict(trainer.model)  # gathered from all processes
        if processes.rank() == 0:
            save_result(model, weights, ready.tokenizer, folder.model)
        trainer.accelerator.wait_for_everyone()
    losses = [entry["loss"] for entry in state.log_history if "loss" in entry]
    return Outcome(state.global_step, state.max_steps, losses[-1] if losses else math.nan, not done)


def make_trainer(
    folder: RunFolder, ready: Ready, sequences: int, accumulate: int, report_to: Sequence[str], on_step: Any
) -> Any:
    """Return TRL's trainer for what is ready, as a recipe wants it; `on_step` gets what each step logs, and
    the numbers of its rows. Nothing is on disk before it trains."""
    from transformers.utils.logging import disable_progress_bar

    from mcp_bench.trainer.sft.batches import RightPadding, dataset
    from mcp_bench.trainer.sft.guarded import GuardedTrainer, fit_head
    from mcp_bench.trainer.sft.model import adapter, load_model
    from mcp_bench.trainer.sft.order import LikeLengths
    from mcp_bench.trainer.sft.settings import sft_config

    recipe = ready.recipe
    disable_progress_bar()  # of each file that is loaded or written
    fit_head(recipe.model.architecture.vocab_size)
    model = load_model(recipe, ready.tokenizer)
    training, packing = recipe.training, recipe.data.packing
    optimizers: tuple[Any, None] = (None, None)
    if training.optimizer == "muon":
        from mcp_bench.trainer.sft.muon import MuonAdamW

        rates = {"lr": training.learning_rate, "muon_lr": training.muon_learning_rate}
        optimizers = (MuonAdamW(model, **rates, weight_decay=training.weight_decay), None)
    order = None
    if recipe.data.group_by_length and not packing:
        lengths = [len(example.tokens) for example in ready.prepared.examples]
        order = LikeLengths(lengths, recipe.sequences_per_step, training.seed)
    shards = recipe.hardware.context_parallel
    padding = RightPadding(ready.tokenizer.pad_token_id, 2 * shards if shards > 1 else 1)
    return GuardedTrainer(
        model=model,
        args=sft_config(
            recipe, folder.checkpoints, sequences=sequences, accumulate=accumulate, report_to=report_to
        ),
        train_dataset=dataset(ready.prepared.examples, packing=packing),
        data_collator=None if packing else padding,
        processing_class=ready.tokenizer,
        peft_config=adapter(recipe.lora) if recipe.lora else None,
        optimizers=optimizers,
        guard=LossGuard([] if packing else [example.place for example in ready.prepared.examples]),
        on_step=on_step,
        order=order,
    )


def make_ready(recipe: Recipe, tokenizer: str, sources: Sequence[Path]) -> Ready:
    """Read and check everything that is known before a model is loaded.

    Raises:
        BrokenRowsError, NothingToTrainOnError, TemplateSkewError, WrongUseError: see where they are raised.
    """
    from mcp_bench.trainer.data import prepare
    from mcp_bench.trainer.rows import read_rows
    from mcp_bench.trainer.templates import check_templates, choose_templates
    from mcp_bench.trainer.tokenizer import load_tokenizer

    rows = read_rows(sources)
    loaded = load_tokenizer(tokenizer)
    if loaded.pad_token is None:
        loaded.pad_token = loaded.eos_token
    if loaded.eos_token is None:
        raise WrongUseError(f"the tokenizer in {tokenizer} has no end-of-text token: set its eos_token")
    templates = choose_templates(loaded, recipe.model)
    check_templates(loaded, templates, rows)
    return Ready(recipe, prepare(rows, loaded, templates, recipe.data.max_length), loaded, templates)


def _where_to_go(folder: RunFolder) -> str:
    checkpoint = last_whole(folder.checkpoints)
    if checkpoint is None:
        return "No checkpoint was written before. Try a lower training.learning_rate"
    return (
        f"The last good checkpoint is {checkpoint}. Look at these rows, or try a lower training.learning_rate"
    )


def _fewer(sequences: int) -> int | None:
    """Return the next smaller number that makes the same step with a whole number of batches."""
    return next((few for few in range(sequences // 2, 0, -1) if sequences % few == 0), None)


def _advice(ready: Ready, sequences: int) -> str:
    longest = ready.prepared.longest
    return (
        f"out of memory with {sequences} sequence(s) of up to {longest} tokens at once. Lower "
        "data.max_length or training.sequences_per_device, set training.checkpointing to on or offload, use "
        "lora, or shard over more devices"
    )


def _free_memory() -> None:
    import gc

    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _tell(text: str) -> None:
    import click

    click.echo(text, err=True)
