"""Train a recipe on rows: check the input, run TRL's SFTTrainer, save a model that is ready to serve."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp_bench.servers.errors import BenchError, WrongUseError
from mcp_bench.trainer.data import Prepared
from mcp_bench.trainer.folders import locked
from mcp_bench.trainer.recipe import Recipe
from mcp_bench.trainer.rows import Row
from mcp_bench.trainer.sft import processes
from mcp_bench.trainer.sft.checkpoints import last_complete, number
from mcp_bench.trainer.sft.guards import DivergedError, LossGuard
from mcp_bench.trainer.sft.progress import Progress
from mcp_bench.trainer.sft.run_folder import RunFolder
from mcp_bench.trainer.step_lines import append_line
from mcp_bench.trainer.templates import Templates

MEMORY_ERRORS = ("out of memory", "can't allocate memory", "not enough memory")
"""Parts of torch's error messages: one on GPUs and two on CPUs."""


SAMPLED = 100
"""Rows that are searched for the end of a turn before training."""


class OutOfMemoryError(BenchError):
    """Memory is too small for a single sequence."""


@dataclass(frozen=True)
class Ready:
    """The checked input of a run: recipe, tokenised rows, tokenizer and templates."""

    recipe: Recipe
    prepared: Prepared
    tokenizer: Any
    templates: Templates
    held_out: Prepared | None = None
    """Rows that are scored, not trained on."""


@dataclass(frozen=True)
class Outcome:
    """The state at the end of a run. `stopped` is true if a signal ended it early."""

    step: int
    steps: int
    loss: float
    stopped: bool


MakeTrainer = Callable[[RunFolder, Ready, int, int, Sequence[str], Any], Any]
"""See `make_trainer`."""


def train(
    folder: RunFolder, ready: Ready, report_to: Sequence[str] = (), make: MakeTrainer | None = None
) -> Outcome:
    """Train to the end or until a signal arrives, starting from the last complete checkpoint if there is one.

    If memory runs out, each device processes fewer sequences at once and accumulates more gradients, so that
    steps stay the same.

    Raises:
        DivergedError: the loss is not finite or exploded. The last good checkpoint is kept.
        OutOfMemoryError: memory is too small for a single sequence.
    """
    with locked(folder.path) if processes.rank() == 0 else nullcontext():
        return _train(folder, ready, report_to, make or make_trainer)


def _train(folder: RunFolder, ready: Ready, report_to: Sequence[str], make: MakeTrainer) -> Outcome:
    training = ready.recipe.training
    sequences, accumulate = training.sequences_per_device, training.accumulate
    while True:
        try:
            return _attempt(folder, ready, sequences, accumulate, report_to, make)
        except (RuntimeError, MemoryError) as error:
            if not isinstance(error, MemoryError) and not any(word in str(error) for word in MEMORY_ERRORS):
                raise
            fewer = _fewer(sequences)
            if fewer is None or processes.count() > 1:
                raise OutOfMemoryError(_advice(ready, sequences)) from error
        accumulate = sequences * accumulate // fewer
        sequences = fewer
        _free_memory()
        _report(f"Out of memory: continuing with {sequences} sequences at once, {accumulate} times per step")


def _attempt(
    folder: RunFolder,
    ready: Ready,
    sequences: int,
    accumulate: int,
    report_to: Sequence[str],
    make: MakeTrainer,
) -> Outcome:
    from transformers import PrinterCallback

    from mcp_bench.trainer.sft.interrupt import StopAfterStep
    from mcp_bench.trainer.sft.model import make_servable, save_result, stop_tokens

    recipe, examples = ready.recipe, ready.prepared.examples
    checkpoint = last_complete(folder.checkpoints)
    if processes.rank() == 0:
        folder.keep_metrics(number(checkpoint) if checkpoint else None)
    stopping = StopAfterStep()
    progress = Progress(on_gpu=recipe.hardware.device != "cpu", shown=processes.rank() == 0)
    lengths = ready.prepared.lengths
    counted = 0.0

    def on_step(line: dict[str, Any], rows: Sequence[int]) -> None:
        nonlocal counted
        # packed rows have no indices, and other processes have rows, too: TRL counts all, with padding
        before, counted = counted, line.get("num_tokens", 0.0)
        own = rows and processes.count() == 1
        tokens = sum(lengths[row] for row in rows) if own else round(counted - before)
        figures = progress.step(line["step"], line["steps"], line["loss"], tokens)
        if processes.rank() == 0:
            append_line(folder.metrics, {**line, **figures})

    trainer = make(folder, ready, sequences, accumulate, report_to, on_step)
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(stopping)
    if ready.held_out is not None:
        every = recipe.training.eval_every or recipe.training.save_every
        trainer.add_callback(_scoring(ready.held_out, every, folder, trainer, progress))
    stops = stop_tokens(examples, ready.tokenizer)
    make_servable(trainer.model, ready.tokenizer, ready.templates, stops, recipe.generation)
    try:
        with processes.ending_with_others(), stopping.listening():
            trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    except DivergedError as error:  # all processes have it
        raise DivergedError(f"{error}. {_where_to_go(folder)}") from None
    except BaseException:
        processes.fail()
        raise
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


def _scoring(held_out: Prepared, every: int, folder: RunFolder, trainer: Any, progress: Progress) -> Any:
    """Return the callback that scores held-out rows, and stores and shows the scores."""
    from mcp_bench.trainer.sft.held_out import HeldOut

    def on_score(line: dict[str, Any]) -> None:
        step, loss, turns = line["step"], line["loss"], line["turns"]
        share = line["exact_turns"] / turns
        logs = {"eval_loss": loss, "eval_exact_turns": share}
        # not trainer.log, which would take the step's own metrics with it
        trainer.callback_handler.on_log(trainer.args, trainer.state, trainer.control, logs)
        if processes.rank() == 0:
            append_line(folder.evaluations, line)
            progress.note(f"step {step}: held-out loss {loss:.4f}, {share:.1%} of {turns} turns exact")

    return HeldOut(held_out.examples, every, on_score)


def make_trainer(
    folder: RunFolder, ready: Ready, sequences: int, accumulate: int, report_to: Sequence[str], on_step: Any
) -> Any:
    """Return the trainer for a recipe. Nothing is written before training starts.

    Args:
        folder: the run's folder.
        ready: the checked input.
        sequences: sequences per device.
        accumulate: micro-batches per step.
        report_to: services to log to.
        on_step: called with the log entry of each step and the indices of its rows.
    """
    from transformers.utils.logging import disable_progress_bar

    from mcp_bench.trainer.sft.guarded import GuardedTrainer, fit_head
    from mcp_bench.trainer.sft.model import adapter, layer_classes, load_model
    from mcp_bench.trainer.sft.shared_prefix import SharedPrefixes, SimilarBeginnings
    from mcp_bench.trainer.sft.trainer_inputs import RightPadding, SimilarLengths, dataset, sft_config

    recipe = ready.recipe
    disable_progress_bar()  # transformers' bars for loading and writing files
    fit_head(recipe.architecture.vocab_size)
    model = load_model(recipe, ready.tokenizer)
    training, packing = recipe.training, recipe.data.packing
    optimizers = make_optimizers(recipe, model, training.learning_rate)
    shards = recipe.hardware.context_parallel
    order: Any = None
    padding: Any = RightPadding(
        ready.tokenizer.pad_token_id,
        2 * shards if shards > 1 else 1,
        masked=recipe.architecture.experts > 0,
    )
    if recipe.data.shared_prefix:
        beginnings = [example.tokens for example in ready.prepared.examples]
        order = SimilarBeginnings(beginnings, training.sequences_per_device, training.seed)
        padding = SharedPrefixes(padding)
    elif recipe.data.group_by_length and not packing:
        order = SimilarLengths(ready.prepared.lengths, recipe.sequences_per_step, training.seed)
    return GuardedTrainer(
        model=model,
        args=sft_config(
            recipe,
            folder.checkpoints,
            sequences=sequences,
            accumulate=accumulate,
            report_to=report_to,
            layers=layer_classes(model),
        ),
        train_dataset=dataset(ready.prepared.examples, packing=packing),
        data_collator=None if packing else padding,
        processing_class=ready.tokenizer,
        peft_config=adapter(recipe) if recipe.lora else None,
        optimizers=optimizers,
        guard=LossGuard([] if packing else [example.place for example in ready.prepared.examples]),
        on_step=on_step,
        order=order,
    )


def make_optimizers(recipe: Recipe, model: Any, rate: float) -> tuple[Any, None]:
    """Return TRL's argument `optimizers` for a recipe: Muon, or TRL's own."""
    if recipe.training.optimizer != "muon":
        return (None, None)
    from mcp_bench.trainer.sft.muon import MuonAdamW

    training = recipe.training
    scaled = training.muon_learning_rate * rate / training.learning_rate
    return (MuonAdamW(model, lr=rate, muon_lr=scaled, weight_decay=training.weight_decay), None)


def make_ready(recipe: Recipe, tokenizer: str, sources: Sequence[Path]) -> Ready:
    """Read and check the input of a run before a model is loaded.

    Raises:
        BrokenRowsError: rows are malformed.
        NothingToTrainOnError: no row is left to train on.
        TemplateSkewError: training and serving templates disagree.
        WrongUseError: a file, the tokenizer or its template cannot be used.
    """
    from mcp_bench.trainer.data import prepare
    from mcp_bench.trainer.row_changes.training_rows import training_rows

    rows = training_rows(recipe, sources)
    loaded, templates = tokenizer_with_templates(recipe, tokenizer, rows)
    prepared = prepare(
        rows, loaded, templates, recipe.data.max_length, mask_failed=recipe.data.failed_calls == "mask"
    )
    weighted = next((example.place for example in prepared.examples if example.weights), None)
    if weighted and (recipe.data.packing or recipe.hardware.context_parallel > 1):
        raise WrongUseError(
            f"{weighted}: weights of turns between 0 and 1 cannot be used with data.packing or "
            "hardware.context_parallel: turn them off, or export with weights of 0 and 1"
        )
    return checked(Ready(recipe, prepared, loaded, templates))


def tokenizer_with_templates(recipe: Recipe, name: str, rows: Sequence[Row]) -> tuple[Any, Templates]:
    """Return a tokenizer with a padding token, and templates that agree on all rows.

    Raises:
        TemplateSkewError: training and serving templates disagree.
        WrongUseError: the tokenizer or its template cannot be used.
    """
    from mcp_bench.trainer.templates import check_templates, choose_templates
    from mcp_bench.trainer.tokenizer import load_tokenizer

    loaded = load_tokenizer(name)
    if loaded.pad_token is None:
        loaded.pad_token = loaded.eos_token
    if loaded.eos_token is None:
        raise WrongUseError(f"the tokenizer in {name} has no end-of-text token: set its eos_token")
    templates = choose_templates(loaded, recipe.model)
    check_templates(loaded, templates, rows)
    return loaded, templates


def checked(ready: Ready) -> Ready:
    """Return the input, whose turns end with a token that a model can learn to stop with.

    Raises:
        WrongUseError: they do not.
    """
    from mcp_bench.trainer.sft.model import stop_tokens

    if not stop_tokens(ready.prepared.examples[:SAMPLED], ready.tokenizer):
        raise WrongUseError(
            "no turn of the assistant ends with a special token, so the model would not learn to stop: set "
            "model.chat_template to a template that ends turns with one"
        )
    return ready


def _where_to_go(folder: RunFolder) -> str:
    checkpoint = last_complete(folder.checkpoints)
    if checkpoint is None:
        return "There is no checkpoint. Try a lower training.learning_rate"
    return (
        f"The last good checkpoint is {checkpoint}. Check these rows, or try a lower training.learning_rate"
    )


def _fewer(sequences: int) -> int | None:
    """Return the next smaller number of sequences that divides the step evenly, or None."""
    return next((few for few in range(sequences // 2, 0, -1) if sequences % few == 0), None)


def _advice(ready: Ready, sequences: int) -> str:
    longest = ready.prepared.longest
    return (
        f"out of memory with {sequences} sequence(s) of up to {longest} tokens. Lower data.max_length or "
        "training.sequences_per_device, set training.checkpointing to on or offload, use lora, or shard over "
        "more devices"
    )


def _free_memory() -> None:
    import gc

    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _report(text: str) -> None:
    import click

    click.echo(text, err=True)
