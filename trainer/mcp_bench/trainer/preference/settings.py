"""The settings of learning from preferences: the section `preference` of a recipe."""

from __future__ import annotations

from typing import Literal

from mcp_bench.trainer.recipe_section import Finite, Section


class Preference(Section):
    beta: Finite = 0.1
    """How strongly the model is held to the start: the weight of the KL divergence in the objective."""
    learning_rate: Finite = 1e-6
    """In place of `training.learning_rate`, which is meant for imitation and far too high here."""
    loss: Literal["sigmoid", "ipo", "hinge"] = "sigmoid"
    """Of DPO, by TRL's name: the paper's own, IPO (https://arxiv.org/abs/2310.12036), or SLiC's hinge."""
    desirable: Finite = 1.0
    """Weight of good attempts in KTO."""
    undesirable: Finite = 1.0
    """Weight of bad attempts in KTO."""
