"""The inputs of TRL's SFTTrainer: settings from the recipe, the dataset, the order of rows, and batches."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Sampler

from mcp_bench.trainer.data import Example
from mcp_bench.trainer.recipe import Recipe

KEPT = 2
"""Number of checkpoints to keep: the previous one must stay until the last one is complete."""


def sft_config(
    recipe: Recipe,
    checkpoints: Path,
    *,
    sequences: int,
    accumulate: int,
    report_to: Sequence[str] = (),
    layers: Sequence[str] = (),
) -> Any:
    """Return TRL's SFTConfig for a recipe.

    Args:
        recipe: the recipe.
        checkpoints: folder for checkpoints.
        sequences: sequences per device. After running out of memory, fewer than the recipe's.
        accumulate: micro-batches per step. The product with `sequences` equals the recipe's.
        report_to: services to log to.
        layers: names of the classes that FSDP wraps, one instance per layer. Default: those that accelerate
            finds.
    """
    from trl.trainer.sft_config import SFTConfig

    return SFTConfig(
        **arguments(recipe, checkpoints, accumulate=accumulate, report_to=report_to, layers=layers),
        per_device_train_batch_size=sequences,
        learning_rate=recipe.training.learning_rate,
        # longer rows have been dropped already, so TRL need not truncate
        max_length=recipe.data.max_length if recipe.data.packing else None,
        packing=recipe.data.packing,
        dataset_kwargs={"skip_prepare_dataset": not recipe.data.packing},
        remove_unused_columns=recipe.data.packing,
    )


def arguments(
    recipe: Recipe, checkpoints: Path, *, accumulate: int, report_to: Sequence[str], layers: Sequence[str]
) -> dict[str, Any]:
    """Return the settings for a recipe that all of TRL's trainers have; see `sft_config`."""
    training, hardware = recipe.training, recipe.hardware
    return {
        "output_dir": str(checkpoints),
        "num_train_epochs": training.epochs,
        "gradient_accumulation_steps": accumulate,
        # transformers' `constant` ignores the warm-up
        "lr_scheduler_type": "constant_with_warmup"
        if training.scheduler == "constant"
        else training.scheduler,
        "warmup_steps": training.warmup_ratio,
        "weight_decay": training.weight_decay,
        "max_grad_norm": training.max_grad_norm,
        "bf16": training.precision != "fp32",
        "activation_checkpointing": training.checkpointing == "offload"
        or (training.checkpointing == "on" and hardware.sharding == "none"),
        "activation_offloading": training.checkpointing == "offload",
        "seed": training.seed,
        "use_cpu": hardware.device == "cpu",
        "dataloader_pin_memory": hardware.device != "cpu",
        "logging_steps": 1,
        "logging_nan_inf_filter": False,  # would hide what LossGuard checks
        "save_strategy": "steps",
        "save_steps": training.save_every,
        "save_total_limit": KEPT,
        "report_to": list(report_to) or "none",
        "project": "mcp-bench",
        "run_name": checkpoints.parent.name,
        "disable_tqdm": True,
        **_sharding(recipe, layers),
    }


def _sharding(recipe: Recipe, layers: Sequence[str]) -> dict[str, Any]:
    """Return the settings for sharing the model and sequences over several devices."""
    hardware = recipe.hardware
    if hardware.sharding != "fsdp2":
        return {}
    settings: dict[str, Any] = {
        "fsdp": True,
        "fsdp_config": {
            "version": 2,
            "auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
            "transformer_layer_cls_to_wrap": list(layers) or None,
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


ROWS = "rows"
"""The column with the index of each row, for error messages. It never reaches the model."""
WEIGHTS = "weights"
"""The column with the weight of each token's loss, if the rows have weights."""


def dataset(examples: Sequence[Example], *, packing: bool) -> Any:
    """Return a `datasets.Dataset` of `input_ids`, `labels` and, unless packed, row indices and weights.

    Arrow cannot alter these, since all values are numbers. TRL combines packed rows into new ones, so
    these have no index.
    """
    from datasets import Dataset

    columns: dict[str, Any] = {
        "input_ids": [example.tokens.tolist() for example in examples],
        "labels": [example.labels() for example in examples],
    }
    if not packing:
        columns[ROWS] = list(range(len(examples)))
        if any(example.weights for example in examples):
            columns[WEIGHTS] = [list(example.weights or [1.0] * len(example.tokens)) for example in examples]
    return Dataset.from_dict(columns)


@dataclass(frozen=True)
class RightPadding:
    """Collates a batch: tokens of shape (sequences, longest), padded at the end, with label -100 there.

    The attention mask is all ones. Under causal attention no real token sees the padding after it, and the
    padding has no loss: the result is the same without a mask matrix.
    """

    pad: int
    multiple: int = 1
    masked: bool = False
    """Whether the mask is 0 on the padding: for models with experts, whose balance is that of real tokens."""

    def __call__(self, batch: list[dict[str, Any]]) -> dict[str, Any]:
        longest = max(len(row["input_ids"]) for row in batch)
        longest += -longest % self.multiple
        ids = torch.full((len(batch), longest), self.pad)
        labels = torch.full((len(batch), longest), -100)
        for number, row in enumerate(batch):
            ids[number, : len(row["input_ids"])] = torch.tensor(row["input_ids"])
            labels[number, : len(row["labels"])] = torch.tensor(row["labels"])
        mask = torch.ones_like(ids)
        if self.masked:
            for number, row in enumerate(batch):
                mask[number, len(row["input_ids"]) :] = 0
        rows = torch.tensor([row[ROWS] for row in batch])
        found = {"input_ids": ids, "labels": labels, "attention_mask": mask, ROWS: rows}
        if WEIGHTS in batch[0]:
            found[WEIGHTS] = torch.ones((len(batch), longest))
            for number, row in enumerate(batch):
                found[WEIGHTS][number, : len(row[WEIGHTS])] = torch.tensor(row[WEIGHTS])
        return found


class Batches(Sampler[int]):
    """Yields the indices of all rows, batch after batch, in random order. A short batch comes last.

    The order depends only on seed and epoch, so a resumed run continues with the same order.
    """

    def __init__(self, count: int, size: int, seed: int) -> None:
        self._count = count
        self._size = size
        self._seed = seed
        self._epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch. accelerate calls this before each epoch."""
        self._epoch = epoch

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[int]:
        draw = random.Random(f"{self._seed} {self._epoch}")  # noqa: S311 - not for security
        rows = self.arranged(draw)
        batches = [rows[at : at + self._size] for at in range(0, len(rows), self._size)]
        short = batches.pop() if batches and len(batches[-1]) < self._size else []
        draw.shuffle(batches)
        for batch in [*batches, short]:
            yield from batch

    def arranged(self, draw: random.Random) -> list[int]:
        """Return the indices of all rows, with those of each batch side by side."""
        raise NotImplementedError


STEPS_AT_ONCE = 8
"""Rows are sorted by length within groups of this many steps: a compromise between padding and randomness."""


class SimilarLengths(Batches):
    """Rows of similar length are in the same step."""

    def __init__(self, lengths: Sequence[int], step: int, seed: int) -> None:
        super().__init__(len(lengths), step, seed)
        self._lengths = lengths

    def arranged(self, draw: random.Random) -> list[int]:
        rows = list(range(len(self._lengths)))
        draw.shuffle(rows)
        at_once = self._size * STEPS_AT_ONCE
        parts = [rows[start : start + at_once] for start in range(0, len(rows), at_once)]
        return [row for part in parts for row in sorted(part, key=self._lengths.__getitem__)]
