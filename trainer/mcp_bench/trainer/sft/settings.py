"""A recipe as the arguments of TRL's SFTTrainer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mcp_bench.trainer.recipe import Recipe

KEPT = 2
"""Checkpoints on disk: the one before the last stays until the last is whole."""


def sft_config(
    recipe: Recipe, checkpoints: Path, *, sequences: int, accumulate: int, report_to: Sequence[str] = ()
) -> Any:
    """Return an SFTConfig. `sequences` and `accumulate` are those of the recipe, or what is left of them
    where memory ran out: their product is the same."""
    from trl.trainer.sft_config import SFTConfig

    training, hardware = recipe.training, recipe.hardware
    return SFTConfig(
        output_dir=str(checkpoints),
        num_train_epochs=training.epochs,
        per_device_train_batch_size=sequences,
        gradient_accumulation_steps=accumulate,
        learning_rate=training.learning_rate,
        lr_scheduler_type=training.scheduler,
        warmup_steps=training.warmup_ratio,
        weight_decay=training.weight_decay,
        max_grad_norm=training.max_grad_norm,
        bf16=training.precision != "fp32",
        activation_checkpointing=training.checkpointing == "offload"
        or (training.checkpointing == "on" and hardware.sharding == "none"),
        activation_offloading=training.checkpointing == "offload",
        seed=training.seed,
        use_cpu=hardware.device == "cpu",
        dataloader_pin_memory=hardware.device != "cpu",
        # rows over the length are dropped before, with a count: nothing is left to cut
        max_length=recipe.data.max_length if recipe.data.packing else None,
        packing=recipe.data.packing,
        dataset_kwargs={"skip_prepare_dataset": not recipe.data.packing},
        remove_unused_columns=recipe.data.packing,
        logging_steps=1,
        logging_nan_inf_filter=False,  # it would hide what the guards look for
        save_strategy="steps",
        save_steps=training.save_every,
        save_total_limit=KEPT,
        report_to=list(report_to) or "none",
        project="mcp-bench",
        run_name=checkpoints.parent.name,
        disable_tqdm=True,
        **_sharding(recipe),
    )


def _sharding(recipe: Recipe) -> dict[str, Any]:
    """Return how several devices share the model, and a sequence."""
    hardware = recipe.hardware
    if hardware.sharding != "fsdp2":
        return {}
    settings: dict[str, Any] = {
        "fsdp": True,
        "fsdp_config": {
            "version": 2,
            "auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
            "transformer_layer_cls_to_wrap": [recipe.model.architecture.layer_class],
            "reshard_after_forward": True,
            "state_dict_type": "SHARDED_STATE_DICT",
            "cpu_ram_efficient_loading": True,
            # offloaded layer inputs are the trainer's own business: this would do it twice
            "activation_checkpointing": recipe.training.checkpointing == "on",
        },
    }
    if hardware.context_parallel > 1:
        from accelerate.parallelism_config import ParallelismConfig
        from accelerate.utils import TorchContextParallelConfig

        settings["parallelism_config"] = ParallelismConfig(
            dp_shard_size=hardware.devices // hardware.context_parallel,
            cp_size=hardware.context_parallel,
            cp_handler=TorchContextParallelConfig(cp_comm_strategy="allgather"),
        )
    return settings
