"""A request, and the answer that is being decoded for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from mcp_bench.trainer.chat.calls import AnswerParser
from mcp_bench.trainer.engine.constraint import Constraint
from mcp_bench.trainer.engine.sampling import Chosen, Logprobs, Sampler, Sampling, choose
from mcp_bench.trainer.templates import special_tokens

FinishReason = Literal["stop", "length"]
UNFINISHED = "\ufffd"
"""What a tokenizer decodes half a character to."""


@dataclass(frozen=True)
class Completion:
    """A finished answer."""

    tokens: tuple[int, ...]
    """Its tokens, with the one that ended it."""
    text: str
    """Its text, with the marks of calls and thoughts, without what ended it."""
    chosen: tuple[Chosen, ...]
    """The tokens with their log-probabilities, if they were asked for; else empty."""
    finish_reason: FinishReason
    cached: int
    """How many tokens of the prompt were not computed again."""
    stop: str | None = None
    """The stop string that ended it."""


@dataclass(eq=False)
class Request:
    """What to decode. Cancelling `done` ends it."""

    prompt: list[int]
    sampling: Sampling
    most_tokens: int
    """The limit of new tokens."""
    stop: tuple[str, ...] = ()
    top_logprobs: int | None = None
    logprobs_mode: Logprobs = "raw_logprobs"
    constraint: Constraint | None = None
    on_text: Callable[[str], None] | None = None
    """Is called in the engine's thread with the whole text so far, as it grows."""
    done: Future[Completion] = field(default_factory=Future)


def hidden_tokens(tokenizer: Any, parser: AnswerParser) -> frozenset[int]:
    """Return the tokens that have no text in an answer: special ones that are no marks of its parser."""
    marks = {tokenizer.convert_tokens_to_ids(mark) for mark in parser.marks}
    return frozenset(special_tokens(tokenizer)) - marks


class Detokenizer:
    """Turns tokens into text one by one. Characters may span several tokens."""

    def __init__(self, tokenizer: Any, hidden: frozenset[int]) -> None:
        """Begin a text; `hidden` is as `hidden_tokens` returns it."""
        self._tokenizer, self._hidden = tokenizer, hidden
        self._tokens: list[int] = []
        self._shown = 0
        """How many tokens' text was returned."""
        self._context = 0
        """Where decoding begins: some tokenizers write a token differently at the beginning."""

    def peek(self, token: int) -> str:
        """Return the text that `add` would return."""
        return "" if token in self._hidden else self._new([*self._tokens, token], final=False)

    def add(self, token: int) -> str:
        """Add a token and return the text that is certain now."""
        if token in self._hidden:
            return ""
        self._tokens.append(token)
        text = self._new(self._tokens, final=False)
        if text:
            self._context, self._shown = self._shown, len(self._tokens)
        return text

    def rest(self) -> str:
        """Return what is left when the tokens end inside of a character."""
        return self._new(self._tokens, final=True)

    def _new(self, tokens: Sequence[int], *, final: bool) -> str:
        before = self._decode(tokens[self._context : self._shown])
        now = self._decode(tokens[self._context :])
        return now[len(before) :] if final or not now.endswith(UNFINISHED) else ""

    def _decode(self, tokens: Sequence[int]) -> str:
        return str(
            self._tokenizer.decode(tokens, skip_special_tokens=False, clean_up_tokenization_spaces=False)
        )


class Decoding:
    """The answer to one request, token by token."""

    def __init__(
        self, request: Request, tokenizer: Any, hidden: frozenset[int], ends: frozenset[int]
    ) -> None:
        self.request = request
        self.tokens: list[int] = []
        self.cached = 0
        self.finish_reason: FinishReason | None = None
        self._stop: str | None = None
        self._ends = ends
        self.sampler = Sampler(
            request.sampling, top_logprobs=request.top_logprobs, mode=request.logprobs_mode
        )
        self._chosen: list[Chosen] = []
        self._writer = Detokenizer(tokenizer, hidden)
        self._text = ""
        self._sent = 0

    @property
    def known(self) -> list[int]:
        """The tokens of the prompt, and those of the answer so far."""
        return [*self.request.prompt, *self.tokens]

    def add(self, chosen: Chosen) -> None:
        """Add a token, and see whether it ends the answer."""
        self.tokens.append(chosen.token)
        if self.request.top_logprobs is not None:
            self._chosen.append(chosen)
        if chosen.token in self._ends:
            self.finish_reason = "stop"
            self._text += self._writer.rest()
            return
        self._text += self._writer.add(chosen.token)
        stops = [(at, stop) for stop in self.request.stop if (at := self._text.find(stop)) >= 0]
        if stops:
            at, self._stop = min(stops)
            self._text, self.finish_reason = self._text[:at], "stop"
        elif len(self.tokens) >= self.request.most_tokens:
            self._text += self._writer.rest()
            self.finish_reason = "length"
        elif self.request.on_text is not None:
            self._show(self.request.on_text)

    def allowed(self, vocabulary: int) -> torch.Tensor | None:
        """Return which tokens may come next, shape (vocabulary,), bool; None allows all."""
        constraint = self.request.constraint
        return None if constraint is None else constraint.allowed(vocabulary)

    def takes(self, token: int) -> bool:
        """Pass a token to the constraint, and return whether it may stand here."""
        constraint, text = self.request.constraint, self._text
        return constraint is None or constraint.take(token, text, text + self._writer.peek(token))

    def completion(self) -> Completion:
        """Return the finished answer."""
        return Completion(
            tuple(self.tokens),
            self._text,
            tuple(self._chosen),
            self.finish_reason or "stop",
            self.cached,
            self._stop,
        )

    def _show(self, on_text: Callable[[str], None]) -> None:
        """Pass the text on, without an end that may become a stop string."""
        certain = len(self._text)
        for stop in self.request.stop:
            part = next((n for n in range(len(stop) - 1, 0, -1) if self._text.endswith(stop[:n])), 0)
            certain = min(certain, len(self._text) - part)
        if certain > self._sent:
            self._sent = certain
            on_text(self._text[:certain])


def choose_next(sequences: Sequence[Decoding], scores: torch.Tensor) -> None:
    """Choose the next token of each sequence from the model's scores, and add it.

    Args:
        sequences: the answers.
        scores: of shape (sequences, vocabulary), float32.
    """
    alike: dict[Any, list[int]] = {}
    for row, one in enumerate(sequences):
        alike.setdefault(one.sampler.alike, []).append(row)
    for rows in alike.values():
        _choose_alike([sequences[row] for row in rows], scores if len(alike) == 1 else scores[rows])


def _choose_alike(sequences: Sequence[Decoding], scores: torch.Tensor) -> None:
    masks = [one.allowed(scores.shape[-1]) for one in sequences]
    allowed = None
    if any(mask is not None for mask in masks):
        everything = torch.ones(scores.shape[-1], dtype=torch.bool)
        allowed = torch.stack([everything if mask is None else mask for mask in masks]).to(scores.device)
    penalty = sequences[0].request.sampling.repetition_penalty != 1  # it alone needs the tokens so far
    seen = [one.known if penalty else [] for one in sequences]
    chosen = choose([one.sampler for one in sequences], scores, seen, allowed)
    for row, (one, new) in enumerate(zip(sequences, chosen, strict=True)):
        here = slice(row, row + 1)
        left = None if allowed is None else allowed[here]
        while not one.takes(new.token):  # it would begin a call that cannot be completed
            left = torch.ones_like(scores[here], dtype=torch.bool) if left is None else left
            left[0, new.token] = False
            [new] = choose([one.sampler], scores[here], seen[here], left)
        one.add(new)
