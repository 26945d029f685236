"""Choose the next token from the model's scores, exactly as the settings say."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch

Logprobs = Literal["raw_logprobs", "processed_logprobs", "policy_logprobs"]
"""Which log-probabilities are reported; see `Sampler`."""


@dataclass(frozen=True)
class Sampling:
    """The settings of one request, in the order in which they are applied.

    The names and meanings are OpenAI's and transformers'. With temperature 0, the most likely token is taken.
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


@dataclass(frozen=True)
class Chosen:
    """A token with its log-probability, and those of the most likely ones, if they were asked for."""

    token: int
    logprob: float | None = None
    top: tuple[tuple[int, float], ...] = ()


class Sampler:
    """Chooses the tokens of one request. It has a random generator of its own."""

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
        self._settings = settings
        self._top, self._mode = top_logprobs, mode
        self._random = torch.Generator()
        if settings.seed is None:
            self._random.seed()
        else:
            self._random.manual_seed(settings.seed)

    @property
    def plain(self) -> bool:
        """Whether the token is simply the most likely one, and nothing else is reported."""
        return (
            self._settings.temperature == 0 and self._top is None and self._settings.repetition_penalty == 1
        )

    def choose(self, scores: torch.Tensor, seen: torch.Tensor, allowed: torch.Tensor | None) -> Chosen:
        """Return the next token.

        Args:
            scores: the model's scores, shape (vocabulary,), float32.
            seen: the tokens so far, prompt and answer, shape (tokens,). Only the repetition penalty needs
                them.
            allowed: which tokens the grammar allows, shape (vocabulary,), bool; None allows all.
        """
        own, settings = scores, self._settings
        if settings.repetition_penalty != 1:
            before = scores[seen]
            factor = settings.repetition_penalty
            scores = scores.index_put((seen,), torch.where(before < 0, before * factor, before / factor))
        if allowed is not None:
            scores = scores.masked_fill(~allowed, -torch.inf)
        changed = scores is not own
        if settings.temperature == 0:
            token = int(scores.argmax())
        else:
            scores = cut(scores / settings.temperature, settings)
            token = self._draw(scores)
        if self._top is None:
            return Chosen(token)
        if self._mode == "policy_logprobs" and changed:
            scaled = own / (settings.temperature or 1.0)
            scores = cut(scaled, settings)
            scores[token] = scaled[token]
        logs = torch.log_softmax(own if self._mode == "raw_logprobs" else scores, dim=-1)
        values, tokens = logs.topk(self._top) if self._top else (logs[:0], logs[:0].long())
        top = tuple(zip(tokens.tolist(), values.tolist(), strict=True))
        return Chosen(token, float(logs[token]), top)

    def _draw(self, scores: torch.Tensor) -> int:
        """Draw a token by inverting the distribution function: one random number for each token.

        Tokens keep the vocabulary's order, so a rounding error in the scores, which other requests in the
        batch may cause, moves the choice only if the number falls on a boundary.
        """
        sums = scores.double().softmax(dim=-1).cumsum(dim=-1)
        number = torch.rand(1, generator=self._random, dtype=torch.float64).to(sums.device) * sums[-1]
        return min(int(torch.searchsorted(sums, number, right=True)), len(sums) - 1)


def cut(scores: torch.Tensor, settings: Sampling) -> torch.Tensor:
    """Return scores with the tokens at -inf that `top_k`, `top_p` and `min_p` leave out."""
    if 0 < settings.top_k < len(scores):
        scores = scores.masked_fill(scores < scores.topk(settings.top_k).values[-1], -torch.inf)
    if settings.top_p < 1:
        ordered, order = scores.softmax(dim=-1).sort(descending=True)
        without = ordered.cumsum(dim=-1) - ordered >= settings.top_p
        without[0] = False
        scores = scores.masked_fill(torch.zeros_like(without).scatter(0, order, without), -torch.inf)
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
