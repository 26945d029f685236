"""Prepare the learner of a run: the policy, the start that it is compared with, its teacher and optimizer."""

from __future__ import annotations

import copy
from typing import Any

import torch

from mcp_bench.trainer.architectures.base_config import place
from mcp_bench.trainer.base_weights import load_weights
from mcp_bench.trainer.engine.load import find_device
from mcp_bench.trainer.recipe import Recipe
from mcp_bench.trainer.rl.folder import RLFolder, RunSettings
from mcp_bench.trainer.rl.learner import Learner
from mcp_bench.trainer.rl.teacher import OtherModel, make_teacher
from mcp_bench.trainer.rl.together import follow, split
from mcp_bench.trainer.sft.muon import MuonAdamW


def make_learner(
    policy: Any, folder: RLFolder, settings: RunSettings, recipe: Recipe
) -> tuple[Learner, OtherModel | None]:
    """Return the learner of a run, and the other model that it follows, if it follows one.

    Args:
        policy: the model to train. Several processes load it anew, since an engine needs it whole.
        folder: the run's.
        settings: what was asked for.
        recipe: the recipe.
    """
    reference = copy.deepcopy(policy).requires_grad_(requires_grad=False)
    teacher, other = make_teacher(reference, folder, settings, recipe)
    if teacher is not None and teacher is not reference:
        split(teacher)
    split(reference)
    policy = split(policy.requires_grad_(requires_grad=True))
    half = torch.bfloat16 if recipe.training.precision == "bf16-mixed" else None
    most = recipe.training.max_grad_norm
    learner = Learner(
        policy,
        reference,
        _optimizer(policy, recipe),
        recipe.rl,
        max_grad_norm=most,
        precision=half,
        teacher=teacher,
    )
    return learner, other


def learn_along(folder: RLFolder, recipe: Recipe) -> None:
    """Be one of the other processes of a run, until its end."""
    settings = folder.read()
    torch.manual_seed(settings.seed)
    learner, _ = make_learner(load_alone(settings.start, recipe), folder, settings, recipe)
    follow(learner)


def load_alone(start: str, recipe: Recipe) -> Any:
    """Return a model to train, without an engine, and without dropout: engines have none.

    transformers recomputes activations only in training mode, in which a model's own dropout would work.
    """
    from transformers import AutoConfig

    facts = AutoConfig.from_pretrained(**place(start)).to_dict()
    off = {name: 0.0 for name, value in facts.items() if "drop" in name and isinstance(value, float)}
    model = load_weights(start, dtype=torch.float32, **off)
    model = model.to(find_device(recipe.hardware.device))
    if recipe.training.checkpointing != "off":
        model.activation_checkpointing_enable({"use_reentrant": False})
        return model.train()
    return model.eval()


def _optimizer(policy: Any, recipe: Recipe) -> torch.optim.Optimizer:
    training = recipe.training
    if training.optimizer == "muon":
        return MuonAdamW(
            policy,
            lr=recipe.rl.learning_rate,
            muon_lr=recipe.rl.muon_learning_rate,
            weight_decay=training.weight_decay,
        )
    return torch.optim.AdamW(
        policy.parameters(), lr=recipe.rl.learning_rate, betas=(0.9, 0.95), weight_decay=training.weight_decay
    )
