"""Losses of policy updates, as pure functions over flat tensors of tokens.

The trainer knows no algorithm: each token has a weight for each loss, and an algorithm fills them in (the cut
of prime-rl, https://github.com/PrimeIntellect-ai/prime-rl). Tensors have the shape (tokens,), if nothing else
is said, and float32.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

Surrogate = Literal["clip", "cispo", "gspo"]
"""`clip`: PPO's clipped ratio (https://arxiv.org/abs/1707.06347), with a higher bound above than below as in
DAPO (https://arxiv.org/abs/2503.14476). `cispo`: the clipped ratio is a constant weight, so that no token
loses its gradient (https://arxiv.org/abs/2506.13585). `gspo`: clipped ratios of whole sequences
(https://arxiv.org/abs/2507.18071)."""


MOST = 20.0
"""Of a logarithm whose exponential is taken: what is larger has no gradient, where it would be infinite."""


@dataclass(frozen=True)
class Clipping:
    """Bounds of the ratio between the policy and the one that sampled."""

    below: float = 0.2
    above: float = 0.28


def policy_loss(
    logprobs: Tensor,
    sampled: Tensor,
    advantages: Tensor,
    rows: Tensor,
    *,
    surrogate: Surrogate = "clip",
    clipping: Clipping | None = None,
) -> Tensor:
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
    ratio = _log_ratios(logprobs, sampled, rows, surrogate).clamp(max=MOST).exp()
    clipped = ratio.clamp(1 - bounds.below, 1 + bounds.above)
    if surrogate == "cispo":
        return -ratio.clamp(max=1 + bounds.above).detach() * advantages * logprobs
    return -torch.minimum(ratio * advantages, clipped * advantages)


def out_of_bounds(
    logprobs: Tensor, sampled: Tensor, rows: Tensor, *, surrogate: Surrogate, clipping: Clipping
) -> Tensor:
    """Return which tokens have a ratio outside of the bounds that the loss has for it, bool.

    The arguments are those of `policy_loss`. `gspo` has the ratio of the row, and `cispo` no lower bound.
    """
    ratio = _log_ratios(logprobs, sampled, rows, surrogate).exp()
    above = ratio > 1 + clipping.above
    return above if surrogate == "cispo" else above | (ratio < 1 - clipping.below)


def _log_ratios(logprobs: Tensor, sampled: Tensor, rows: Tensor, surrogate: Surrogate) -> Tensor:
    """Return the logarithm of the ratio that each token counts with."""
    logs = logprobs - sampled
    if surrogate != "gspo":
        return logs
    # the sequence's ratio as a value, each token's own gradient (equation 14 of the paper)
    return logprobs - logprobs.detach() + row_means(logs.detach(), rows)[rows]


def kl_loss(logprobs: Tensor, reference: Tensor) -> Tensor:
    """Return an estimate of each token's KL divergence to a reference: unbiased, and never negative.

    It is k3 of http://joschu.net/blog/kl-approx.html.
    """
    logs = (reference - logprobs).clamp(max=MOST)
    return logs.exp() - 1 - logs


def trusted(logprobs: Tensor, sampled: Tensor, most: float) -> Tensor:
    """Return which tokens have nearly the same probability in trainer and engine, bool.

    Two engines compute the same weights differently; a token whose probability differs by more than `most`
    would be trained with a wrong ratio.
    """
    return (logprobs.exp() - sampled.exp()).abs() <= most


def distillation_loss(
    student: Tensor, teacher: Tensor, *, alpha: float = 1.0, top: int | None = None
) -> Tensor:
    """Return each token's divergence between a student and its teacher.

    The same as TRL's for SDPO (https://arxiv.org/abs/2601.20802).

    Args:
        student: logits, shape (tokens, vocabulary), with gradient.
        teacher: logits of the same shape. Two sizes of one vocabulary may be padded differently: what the
            smaller one lacks is left out.
        alpha: 1 is the reverse KL divergence, KL(student || teacher); 0 the forward one, KL(teacher ||
            student); between them, the divergence of both from their mixture, of which the teacher is this
            share.
        top: compare only so many tokens, those that are most probable for the student, and the rest as one;
            None: all.
    """
    size = min(student.shape[-1], teacher.shape[-1])
    ours, theirs = (logits[..., :size].log_softmax(-1) for logits in (student, teacher))
    if top is not None and top < size:
        chosen = ours.topk(top, dim=-1).indices
        ours, theirs = (_with_rest(logs.gather(-1, chosen)) for logs in (ours, theirs))
    if alpha == 0:
        return _kl(theirs, ours)
    if alpha == 1:
        return _kl(ours, theirs)
    mixture = torch.logaddexp(ours + math.log(1 - alpha), theirs + math.log(alpha))
    return (1 - alpha) * _kl(ours, mixture) + alpha * _kl(theirs, mixture)


def _kl(of: Tensor, against: Tensor) -> Tensor:
    return (of.exp() * (of - against)).sum(-1)


def _with_rest(logs: Tensor) -> Tensor:
    """Return log-probabilities with that of everything else as a further entry."""
    known = torch.logsumexp(logs, dim=-1, keepdim=True).clamp(max=-1e-7)
    return torch.cat([logs, torch.log(-torch.expm1(known))], dim=-1)


def row_means(values: Tensor, rows: Tensor) -> Tensor:
    """Return the mean of each row's tokens, shape (rows,)."""
    count = int(rows.max()) + 1 if len(rows) else 0
    sums = torch.zeros(count, dtype=values.dtype, device=values.device).index_add(0, rows, values)
    return sums / torch.bincount(rows, minlength=count).clamp(min=1)
