"""Convert a recipe to the settings of TRL's SFTTrainer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mcp_bench.trainer.recipe import Recipe

KEPT = 2
"""Number of checkpoints to keep: the previous one must stay until the last one is complete."""


def sft_config(
    recipe: Recipe, checkpoints: Path, *, sequences: int, accumulate: int, report_to: Sequence[str] = ()
) -> Any:
    """Return TRL's SFTConfig for a recipe.

    Args:
        recipe: the recipe.
        checkpoints: folder for checkpoints.
        sequences: sequences per device. After running out of memory, fewer than the recipe's.
        accumulate: micro-batches per step. The product with `sequences` equals the recipe's.
        report_to: services to log to.
    """
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
        # longer rows have been dropped already, so TRL need not truncate
        max_length=recipe.data.max_length if recipe.data.packing else None,
        packing=recipe.data.packing,
        dataset_kwargs={"skip_prepare_dataset": not recipe.data.packing},
        remove_unused_columns=recipe.data.packing,
        logging_steps=1,
        logging_nan_inf_filter=False,  # would hide what LossGuard checks
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
    """Return the settings for sharing the model and sequences over several devices."""
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
            # the trainer handles `offload` itself
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
