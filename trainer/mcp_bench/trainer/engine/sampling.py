"""Choose the next token from the model's scores, exactly as the settings say."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch

Logprobs = Literal["raw_logprobs", "processed_logprobs", "policy_logprobs"]
"""Which log-probabilities are reported; see `Sampler`."""

COLDEST = 1e-5


@dataclass(frozen=True)
class Sampling:
    """The settings of one request, in the order in which they are applied.

    The names and meanings are OpenAI's and transformers'. With temperature 0, the most likely token is taken,
    and with one below `COLDEST`: scores divided by it would overflow (vLLM has the same limit).
    """

    repetition_penalty: float = 1.0
    """Divides the positive scores of tokens that occurred, and multiplies the negative ones (CTRL,
    https://arxiv.org/abs/1909.05858)."""
    temperature: float = 1.0
    top_k: int = 0
    """Keep the k most likely tokens; 0 keeps all. Ties with the last one are kept."""
    top_p: float = 1.0
    """Keep the fewest most likely tokens whose probabilities sum to p (https://arxiv.org/abs/1904.09751)."""
    min_p: float = 0.0
    """Keep tokens that are at least this fraction as likely as the most likely one."""
    seed: int | None = None
    """The same seed gives the same answer, whatever other requests are decoded at the same time."""

    @property
    def greedy(self) -> bool:
        """Whether the most likely token is taken."""
        return self.temperature < COLDEST


@dataclass(frozen=True)
class Chosen:
    """A token with its log-probability, and those of the most likely ones, if they were asked for."""

    token: int
    logprob: float | None = None
    top: tuple[tuple[int, float], ...] = ()


class Sampler:
    """The settings of one request, and a random generator of its own."""

    def __init__(
        self, settings: Sampling, *, top_logprobs: int | None = None, mode: Logprobs = "raw_logprobs"
    ) -> None:
        """Begin a request.

        Args:
            settings: the request's settings.
            top_logprobs: how many of the most likely tokens to report; None reports no log-probabilities.
            mode: which log-probabilities to report. `raw_logprobs`: those of the model itself (as vLLM, and
                OpenAI). `processed_logprobs`: those of the distribution that was sampled from, after the
                grammar, the temperature and the cuts (as vLLM). `policy_logprobs`: the same without the
                grammar, which is what a trainer computes again; the token itself is never cut. With
                temperature 0, it is taken as 1.
        """
        self.settings, self.top, self.mode = settings, top_logprobs, mode
        self.alike = (replace(settings, seed=None), top_logprobs, mode)
        """Requests for which this is the same may be given to `choose` together."""
        self.random = torch.Generator()
        if settings.seed is None:
            self.random.seed()
        else:
            self.random.manual_seed(settings.seed)


def choose(
    samplers: Sequence[Sampler],
    scores: torch.Tensor,
    seen: Sequence[Sequence[int]],
    allowed: torch.Tensor | None,
) -> list[Chosen]:
    """Return the next token of each request.

    Args:
        samplers: those of the requests, which are alike.
        scores: the model's scores, shape (requests, vocabulary), float32.
        seen: the tokens so far of each request, prompt and answer. Only the repetition penalty needs them.
        allowed: which tokens the grammars allow, shape (requests, vocabulary), bool; None allows all.
    """
    own, first = scores, samplers[0]
    settings = first.settings
    if settings.repetition_penalty != 1:
        rows = zip(scores, seen, strict=True)
        scores = torch.stack([_penalised(row, there, settings.repetition_penalty) for row, there in rows])
    if allowed is not None:
        scores = scores.masked_fill(~allowed, -torch.inf)
    changed = scores is not own
    if settings.greedy:
        tokens = scores.argmax(dim=-1)
    else:
        scores = cut(scores / settings.temperature, settings)
        tokens = _draw(scores, [sampler.random for sampler in samplers])
    if first.top is None:
        return [Chosen(token) for token in tokens.tolist()]
    at = tokens[:, None]
    if first.mode == "policy_logprobs" and changed:
        scaled = own / (1.0 if settings.greedy else settings.temperature)
        scores = cut(scaled, settings).scatter(-1, at, scaled.gather(-1, at))
    logs = torch.log_softmax(own if first.mode == "raw_logprobs" else scores, dim=-1)
    values, most = (kept.tolist() for kept in logs.topk(first.top))
    tops = [tuple(zip(*pair, strict=True)) for pair in zip(most, values, strict=True)]
    picked = logs.gather(-1, at)[:, 0].tolist()
    return [Chosen(*one) for one in zip(tokens.tolist(), picked, tops, strict=True)]


def _penalised(scores: torch.Tensor, seen: Sequence[int], factor: float) -> torch.Tensor:
    tokens = torch.tensor(seen, device=scores.device)
    before = scores[tokens]
    return scores.index_put((tokens,), torch.where(before < 0, before * factor, before / factor))


def _draw(scores: torch.Tensor, generators: Sequence[torch.Generator]) -> torch.Tensor:
    """Draw tokens by inverting the distribution function: one random number for each token.

    Tokens keep the vocabulary's order, so a rounding error in the scores, which other requests in the
    batch may cause, moves the choice only if the number falls on a boundary.
    """
    sums = scores.double().softmax(dim=-1).cumsum(dim=-1)
    numbers = torch.stack([torch.rand(1, generator=one, dtype=torch.float64) for one in generators])
    at = torch.searchsorted(sums, numbers.to(sums.device) * sums[:, -1:], right=True)[:, 0]
    return at.clamp(max=sums.shape[-1] - 1)


def cut(scores: torch.Tensor, settings: Sampling) -> torch.Tensor:
    """Return scores, (requests, vocabulary), with -inf for the tokens that the settings leave out."""
    if 0 < settings.top_k < scores.shape[-1]:
        scores = scores.masked_fill(scores < scores.topk(settings.top_k).values[:, -1:], -torch.inf)
    if settings.top_p < 1:
        ordered, order = scores.softmax(dim=-1).sort(descending=True)
        without = ordered.cumsum(dim=-1) - ordered >= settings.top_p
        without[:, 0] = False
        scores = scores.masked_fill(torch.zeros_like(without).scatter(-1, order, without), -torch.inf)
    if settings.min_p > 0:
        scores = scores.masked_fill(unlikely(scores, settings.min_p), -torch.inf)
    return scores


def unlikely(scores: torch.Tensor, least: float) -> torch.Tensor:
    """Return which tokens are less than this fraction as likely as the most likely one, bool.

    Args:
        scores: logits, shape (..., vocabulary).
        least: the fraction.
    """
    return scores < scores.amax(dim=-1, keepdim=True) + math.log(least)
