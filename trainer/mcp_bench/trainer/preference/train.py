"""Train a recipe on preference pairs: check the input, run TRL's DPO or KTO, save a model to serve.

The run's folder, its checkpoints and its end are those of `train sft`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from mcp_bench.servers.errors import WrongUseError
from mcp_bench.trainer.data import NothingToTrainOnError
from mcp_bench.trainer.methods import Algorithm, Pairwise
from mcp_bench.trainer.preference.pairs import PreparedPairs, prepare_pairs, read_pairs
from mcp_bench.trainer.recipe import Recipe
from mcp_bench.trainer.sft.guards import LossGuard
from mcp_bench.trainer.sft.run_folder import RunFolder
from mcp_bench.trainer.sft.train import (
    Outcome,
    Ready,
    checked,
    make_optimizers,
    tokenizer_with_templates,
    train,
)

UNUSED: dict[str, tuple[str, ...]] = {"dpo": ("desirable", "undesirable"), "kto": ("loss",)}
"""Settings of `preference` that have no effect with a method."""


def make_ready(recipe: Recipe, tokenizer: str, sources: Sequence[Path], *, method: Pairwise = "dpo") -> Ready:
    """Read and check the input of a run before a model is loaded.

    Raises:
        NothingToTrainOnError: too few pairs are left.
        BenchError: a file, a pair, the tokenizer, its template or the recipe cannot be used.
    """
    check_recipe(recipe, method)
    if recipe.data.tools != "all" or recipe.data.masked_names or recipe.data.masked_values:
        click.echo("data.tools and data.masked_* are for rows: pairs stay as they are", err=True)
    pairs = read_pairs(sources)
    rows = [row for pair in pairs for row in (pair.chosen, pair.rejected)]
    loaded, templates = tokenizer_with_templates(recipe, tokenizer, rows)
    prepared = prepare_pairs(
        pairs, loaded, templates, recipe.data.max_length, mask_failed=recipe.data.failed_calls == "mask"
    )
    if method == "kto" and len(prepared.examples) < 2:
        raise NothingToTrainOnError(
            "KTO needs two pairs at least, for answers that do not belong to their prompts"
        )
    return checked(Ready(recipe, prepared, loaded, templates))


def check_recipe(recipe: Recipe, method: Algorithm) -> None:
    """Check that a recipe can learn from pairs, by dpo or kto.

    Raises:
        WrongUseError: it cannot, or a setting has no effect with the method.
    """
    if recipe.data.packing:
        raise WrongUseError("data.packing joins rows, and pairs must stay apart: set it to false")
    if recipe.data.shared_prefix:
        raise WrongUseError("data.shared_prefix is for rows, not for pairs: set it to false")
    if recipe.hardware.context_parallel > 1:
        raise WrongUseError("hardware.context_parallel is for rows, not for pairs: set it to 1")
    if recipe.training.precision == "bf16" and not recipe.lora:
        raise WrongUseError(
            "training.precision=bf16 stores weights in 16 bits, and rounding loses updates as small as those "
            "from pairs: use bf16-mixed, fp32, or lora"
        )
    for name in UNUSED[method]:
        if getattr(recipe.preference, name) != type(recipe.preference).model_fields[name].default:
            raise WrongUseError(f"preference.{name} has no effect with {method}: leave it out")


def train_on_pairs(
    method: Pairwise, folder: RunFolder, ready: Ready, report_to: Sequence[str] = ()
) -> Outcome:
    """Train to the end or until a signal arrives; see `mcp_bench.trainer.sft.train.train`."""
    return train(folder, ready, report_to, make={"dpo": _dpo, "kto": _kto}[method])


def _dpo(
    folder: RunFolder, ready: Ready, sequences: int, accumulate: int, report_to: Sequence[str], on_step: Any
) -> Any:
    """Return TRL's trainer for DPO; a step has as many pairs as `train sft` has rows."""
    from trl.trainer.dpo_config import DPOConfig

    from mcp_bench.trainer.preference.trainers import GuardedDPO, PairBatch, pair_rows

    settings = ready.recipe.preference
    return _trainer(
        GuardedDPO,
        DPOConfig,
        PairBatch,
        pair_rows(_pairs(ready)),
        folder,
        ready,
        accumulate,
        report_to,
        on_step,
        per_device_train_batch_size=sequences,
        beta=settings.beta,
        loss_type=[settings.loss],
    )


def _kto(
    folder: RunFolder, ready: Ready, sequences: int, accumulate: int, report_to: Sequence[str], on_step: Any
) -> Any:
    """Return TRL's trainer for KTO; both attempts of a pair are in the same batch."""
    from trl.trainer.kto_config import KTOConfig

    from mcp_bench.trainer.preference.trainers import AttemptBatch, GuardedKTO, attempt_rows

    recipe = ready.recipe
    rows = attempt_rows(_pairs(ready), recipe.training.seed, recipe.data.max_length)
    return _trainer(
        GuardedKTO,
        KTOConfig,
        AttemptBatch,
        rows,
        folder,
        ready,
        accumulate,
        report_to,
        on_step,
        per_device_train_batch_size=2 * sequences,
        beta=recipe.preference.beta,
        desirable_weight=recipe.preference.desirable,
        undesirable_weight=recipe.preference.undesirable,
        train_sampling_strategy="sequential",
    )


def _trainer(
    kind: Any,
    config: Any,
    batch: Any,
    rows: Any,
    folder: RunFolder,
    ready: Ready,
    accumulate: int,
    report_to: Sequence[str],
    on_step: Any,
    **own: Any,
) -> Any:
    from transformers.utils.logging import disable_progress_bar

    from mcp_bench.trainer.preference.trainers import in_files
    from mcp_bench.trainer.sft.guarded import fit_head
    from mcp_bench.trainer.sft.model import adapter, layer_classes, load_model
    from mcp_bench.trainer.sft.trainer_inputs import arguments

    recipe = ready.recipe
    disable_progress_bar()
    fit_head(recipe.architecture.vocab_size)
    model = load_model(recipe, ready.tokenizer)
    rate = recipe.preference.learning_rate
    shared = arguments(
        recipe, folder.checkpoints, accumulate=accumulate, report_to=report_to, layers=layer_classes(model)
    )
    chosen = config(  # from here on, the processes know each other
        **shared,
        **own,
        learning_rate=rate,
        max_length=None,
        remove_unused_columns=False,
        precompute_ref_log_probs=True,
    )
    return kind(
        model=model,
        args=chosen,
        train_dataset=in_files(rows, folder.path / "pairs"),
        data_collator=batch(ready.tokenizer.pad_token_id),
        processing_class=ready.tokenizer,
        peft_config=adapter(recipe) if recipe.lora else None,
        optimizers=make_optimizers(recipe, model, rate),
        guard=LossGuard([example.place for example in ready.prepared.examples]),
        on_step=on_step,
        order=None,
    )


def _pairs(ready: Ready) -> PreparedPairs:
    assert isinstance(ready.prepared, PreparedPairs)  # noqa: S101 - made by make_ready
    return ready.prepared
