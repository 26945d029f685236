"""TRL's trainer with loss checks, and checkpoints that are marked when complete."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Sampler
from transformers import Trainer
from trl.kernels.chunked_logprob import _use_triton
from trl.trainer import utils
from trl.trainer.sft_trainer import SFTTrainer

from mcp_bench.trainer.sft.checkpoints import mark_complete
from mcp_bench.trainer.sft.guards import LossGuard
from mcp_bench.trainer.sft.processes import any_process
from mcp_bench.trainer.sft.shared_prefix import GROUPS, Continued
from mcp_bench.trainer.sft.trainer_inputs import ROWS, WEIGHTS

OnStep = Callable[[dict[str, Any], list[int]], None]
"""Called with the log entry of a step and the indices of its rows."""


WIDEST_TILE: int = utils._CHUNKED_LOGPROB_CHUNK_SIZE


def fit_head(vocabulary: int) -> None:
    """Adapt TRL's output head for CPUs.

    Tiles become no wider than the vocabulary; TRL's default tiles for large vocabularies have rows 128 KiB
    apart. And only trained tokens are scored, as on a GPU. TRL does not do that on other devices, since some
    recompile for every shape.
    """
    utils._CHUNKED_LOGPROB_CHUNK_SIZE = min(WIDEST_TILE, vocabulary)
    utils._use_triton = _scores_less  # type: ignore[attr-defined]


def _scores_less(device: torch.device) -> bool:
    return device.type == "cpu" or _use_triton(device)


@dataclass(frozen=True)
class _WeightedOutputs:
    """A model whose outputs have weighted log-probabilities, which TRL sums up to the loss."""

    model: Any
    weights: torch.Tensor
    """Of shape (sequences, tokens)."""

    def __call__(self, **inputs: Any) -> Any:
        outputs = self.model(**inputs)
        # position t predicts token t + 1
        outputs.log_probs = outputs.log_probs * self.weights[:, 1:]
        return outputs


class Guarded(Trainer):
    """Goes before one of TRL's trainers: checks the loss of each batch before the optimizer step, and each
    step before it is saved."""

    def __init__(
        self,
        *args: Any,
        guard: LossGuard,
        on_step: OnStep,
        order: Sampler[int] | None,
        **kwargs: Any,
    ) -> None:
        """Create a trainer; arguments other than these are those of TRL's trainer.

        Args:
            guard: checks losses and gradients.
            on_step: called after each step.
            order: order of the rows; None shuffles them.
        """
        self._order = order
        super().__init__(*args, **kwargs)
        self._guard = guard
        self._on_step = on_step
        self._step_rows: list[int] = []

    def _get_train_sampler(self, train_dataset: Any = None) -> Sampler[int] | None:
        return self._order or super()._get_train_sampler(train_dataset)

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
        """Return the schedule. The first step of a warm-up has the rate 0: a single step would do nothing."""
        if num_training_steps == 1:
            self.args.warmup_steps = 0
        return super().create_scheduler(num_training_steps, optimizer)

    def get_train_dataloader(self) -> Any:
        loader: Any = super().get_train_dataloader()
        if self._order is not None:
            # where a resumed run of several processes skips batches, accelerate looks for the order here only
            loader.batch_sampler.sampler = self._order
        return loader

    def training_step(self, model: Any, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        rows = inputs.pop(ROWS).tolist() if ROWS in inputs else []
        loss = super().training_step(model, inputs, *args, **kwargs)
        value = loss.item()
        # all processes end in the same step: the others would wait for this one's gradients
        self._guard.check_batch(value, rows, elsewhere=any_process(not math.isfinite(value)))
        self._step_rows += rows
        return loss

    def _run_epoch(self, *args: Any, **kwargs: Any) -> None:
        # transformers goes on with an epoch that was not to be trained to its end
        if self.state.global_step < self.state.max_steps:
            super()._run_epoch(*args, **kwargs)  # type: ignore[no-untyped-call]

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        super().log(logs, start_time)
        if "loss" not in logs:
            return  # the final summary
        step = self.state.global_step
        # the trainer logs before it saves, so an error here prevents saving a broken step
        self._guard.check_step(step, logs["loss"], float(logs.get("grad_norm", 0.0)), self._step_rows)
        rows, self._step_rows = self._step_rows, []
        self._on_step({"step": step, "steps": self.state.max_steps, **logs}, rows)

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        super()._save_checkpoint(model, trial)
        self.accelerator.wait_for_everyone()
        if self.args.should_save:
            folder = Path(str(self.args.output_dir)) / f"checkpoint-{self.state.global_step}"
            settings = self.accelerator.unwrap_model(self.model).generation_config
            settings.save_pretrained(folder)  # not saved with adapters otherwise
            mark_complete(folder)

    def create_model_card(self, *args: Any, **kwargs: Any) -> None:
        """Write no model card; TRL's does not describe our data."""


class GuardedTrainer(Guarded, SFTTrainer):
    """Imitation."""

    def compute_loss(self, model: Any, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """Return the loss. With weights, it is the weighted sum over the same number of trained tokens."""
        if GROUPS in inputs:
            model = Continued(model)
        if WEIGHTS in inputs:
            model = _WeightedOutputs(model, inputs.pop(WEIGHTS))
        return super().compute_loss(model, inputs, *args, **kwargs)  # type: ignore[no-untyped-call]
