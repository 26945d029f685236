"""What each attempt of a group earns: its reward against those of the other attempts at the same task."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, pstdev
from typing import Literal

Baseline = Literal["mean", "scaled", "others"]
"""`mean`: the reward minus the group's mean (Dr. GRPO, https://arxiv.org/abs/2503.20783). `scaled`: the
same, divided by the standard deviation (GRPO, https://arxiv.org/abs/2402.03300). `others`: the reward minus
the mean of the other attempts (RLOO, https://arxiv.org/abs/2402.14740)."""

SAME = 1e-6
"""Rewards that differ by less are the same."""


def advantages(rewards: Sequence[float | None], baseline: Baseline) -> list[float | None]:
    """Return the advantage of each attempt of one group.

    Args:
        rewards: of the attempts; None for an invalid one, which says nothing about the policy.
        baseline: what a reward is compared with.

    Returns:
        None for invalid attempts, and for all of a flat group: nothing can be learned from it.
    """
    valid = [reward for reward in rewards if reward is not None]
    if is_flat(rewards):
        return [None] * len(rewards)
    mean, spread, count = fmean(valid), pstdev(valid), len(valid)
    by = {"mean": 1.0, "scaled": 1 / spread, "others": count / (count - 1)}[baseline]
    return [None if reward is None else (reward - mean) * by for reward in rewards]


def is_flat(rewards: Sequence[float | None]) -> bool:
    """Return whether all valid attempts of a group earned the same, or fewer than two are valid."""
    valid = [reward for reward in rewards if reward is not None]
    return len(valid) < 2 or max(valid) - min(valid) < SAME
