"""Losses of policy updates, as pure functions over flat tensors of tokens.

The trainer knows no algorithm: each token has a weight for each loss, and an algorithm fills them in (the cut
of prime-rl, https://github.com/PrimeIntellect-ai/prime-rl). All tensors have the shape (tokens,) and float32.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

Surrogate = Literal["clip", "cispo", "gspo"]
"""`clip`: PPO's clipped ratio (https://arxiv.org/abs/1707.06347), with a higher bound above than below as in
DAPO (https://arxiv.org/abs/2503.14476). `cispo`: the clipped ratio is a constant weight, so that no token
loses its gradient (https://arxiv.org/abs/2506.13585). `gspo`: clipped ratios of whole sequences
(https://arxiv.org/abs/2507.18071)."""


@dataclass(frozen=True)
class Clipping:
    """Bounds of the ratio between the policy and the one that sampled."""

    below: float = 0.2
    above: float = 0.28


def policy_loss(
    logprobs: Tensor, sampled: Tensor, advantages: Tensor, rows: Tensor, *, surrogate: Surrogate = "clip",
    clipping: Clipping | None = None,
) -> Tensor:  # fmt: skip
    """Return the loss of each token by its advantage.

    Args:
        logprobs: of the tokens under the policy, with gradient.
        sampled: the same when they were sampled.
        advantages: of each token's attempt.
        rows: the number of each token's row, from 0, int64; `gspo` takes the mean ratio of a row.
        surrogate: how the ratio enters.
        clipping: bounds of the ratio.
    """
    bounds = clipping or Clipping()
    logs = logprobs - sampled
    if surrogate == "gspo":
        # the sequence's ratio as a value, each token's own gradient (equation 14 of the paper)
        logs = logprobs - logprobs.detach() + row_means(logs.detach(), rows)[rows]
    ratio = logs.exp()
    clipped = ratio.clamp(1 - bounds.below, 1 + bounds.above)
    if surrogate == "cispo":
        return -ratio.clamp(max=1 + bounds.above).detach() * advantages * logprobs
    return -torch.minimum(ratio * advantages, clipped * advantages)


def kl_loss(logprobs: Tensor, reference: Tensor) -> Tensor:
    """Return an estimate of each token's KL divergence to a reference: unbiased, and never negative.

    It is k3 of http://joschu.net/blog/kl-approx.html.
    """
    logs = reference - logprobs
    return logs.exp() - 1 - logs


def trusted(logprobs: Tensor, sampled: Tensor, most: float) -> Tensor:
    """Return which tokens have nearly the same probability in trainer and engine, bool.

    Two engines compute the same weights differently; a token whose probability differs by more than `most`
    would be trained with a wrong ratio.
    """
    return (logprobs.exp() - sampled.exp()).abs() <= most


def row_means(values: Tensor, rows: Tensor) -> Tensor:
    """Return the mean of each row's tokens, shape (rows,)."""
    count = int(rows.max()) + 1 if len(rows) else 0
    sums = torch.zeros(count, dtype=values.dtype, device=values.device).index_add(0, rows, values)
    return sums / torch.bincount(rows, minlength=count).clamp(min=1)
