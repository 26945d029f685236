"""Hold decoding to tool calls that fit the tools' schemas.

Text is free until a call begins. From there on, llguidance (https://github.com/guidance-ai/llguidance) says
which tokens may come next, so the call's form, name and arguments are valid. A call that runs into the limit
of tokens is still cut off.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import llguidance
import llguidance.hf
import numpy as np
import torch

from mcp_bench.servers.errors import WrongUseError
from mcp_bench.trainer.chat.calls import CLOSE_THOUGHT, OPEN_THOUGHT, AnswerParser
from mcp_bench.trainer.chat.grammar import Pieces
from mcp_bench.trainer.chat.harmony import CHANNEL, MESSAGE, START, Harmony

Tools = Sequence[Mapping[str, Any]]
HEAD = "@head@"
"""Where a grammar may begin with text that shares a token with the beginning of the call."""
GRAMMARS = 64
"""How many grammars and matchers are kept. All requests of a run have the same tools."""


class Grammars:
    """Makes the grammars of one tokenizer and one form of calls."""

    def __init__(self, tokenizer: Any, vocabulary: int, ends: Sequence[int], parser: AnswerParser) -> None:
        """Prepare.

        Args:
            tokenizer: a fast tokenizer of transformers.
            vocabulary: how many scores the model gives, which may be more than there are tokens.
            ends: the tokens that end an answer.
            parser: what reads the answers.

        Raises:
            WrongUseError: llguidance cannot read this tokenizer.
        """
        try:
            self.tokens = llguidance.hf.from_tokenizer(tokenizer, n_vocab=vocabulary, eos_token=list(ends))
        except Exception as error:  # whatever the tokenizers library raises
            raise WrongUseError(f"tool calls cannot be constrained with this tokenizer: {error}") from error
        self.parser = parser
        self._tokenizer = tokenizer
        self.ends = frozenset(ends)
        self._made: dict[str, str] = {}
        self._fresh: dict[tuple[str, str], llguidance.LLMatcher] = {}
        self._accepted: dict[str, bool] = {}

    def calls(self, tools: Tools, *, required: bool, several: bool, opened: bool) -> str:
        """Return the grammar of an answer's calls.

        Args:
            tools: what may be called.
            required: whether the answer is calls from its beginning on, after a thought. False: the grammar
                begins where a call does.
            several: whether several calls may follow each other.
            opened: whether the prompt ends inside of a thought.
        """
        key = json.dumps([list(tools), required, several, opened], sort_keys=False, default=str)
        if key not in self._made:
            if len(self._made) >= GRAMMARS:
                self._made.clear()
                self._accepted.clear()
            self._made[key] = self._make(tools, required, several, opened)
        return self._made[key]

    def matcher(self, grammar: str, head: str = "") -> llguidance.LLMatcher:
        """Return a matcher for a grammar, or for `head` and then the grammar."""
        if (fresh := self._fresh.get((grammar, head))) is None:
            if len(self._fresh) >= GRAMMARS:
                self._fresh.clear()
            whole = grammar.replace(HEAD, json.dumps(head, ensure_ascii=False))
            fresh = self._fresh[grammar, head] = llguidance.LLMatcher(self.tokens, whole, log_level=0)
        return fresh.deep_copy()  # a thousand times as fast as a new one

    def _make(self, tools: Tools, required: bool, several: bool, opened: bool) -> str:
        pieces = Pieces(self._special, self._accepts)
        call, between = self.parser.calls.rules(tools, pieces)
        one = pieces.rule(call)
        calls = f"{one} ({between} {one})*" if several and between is not None else one
        if not required:
            return pieces.text(f"{HEAD} {calls}")
        return pieces.text(f"{self._before(pieces, opened)} {calls}")

    def _before(self, pieces: Pieces, opened: bool) -> str:
        """Return the expression of what may come before a required call: a thought."""
        if isinstance(self.parser.calls, Harmony):
            thought = (
                f'{pieces.literal(CHANNEL)} "analysis" {pieces.literal(MESSAGE)} {pieces.until("<|end|>")}'
            )
            return f'({thought} {pieces.literal(START)} "assistant")? " "?'
        if not self.parser.thinks:
            return ""
        end = f'{pieces.until(CLOSE_THOUGHT)} "\\n"? "\\n"?'
        return end if opened else f'"\\n"? ({pieces.literal(OPEN_THOUGHT)} {end})?'

    def _special(self, text: str) -> int | None:
        number = self._tokenizer.get_added_vocab().get(text)
        if number is None or number in self.ends or not self.tokens.is_special_token(number):
            return None
        return int(number)

    def _accepts(self, grammar: str) -> bool:
        if grammar not in self._accepted:
            self._accepted[grammar] = not llguidance.LLMatcher.validate_grammar(grammar, self.tokens)
        return self._accepted[grammar]


class Constraint:
    """What one answer may still contain."""

    def __init__(
        self, grammars: Grammars, tools: Tools, *, required: bool, several: bool = True, opened: bool = False
    ) -> None:
        """Begin an answer; see `Grammars.calls`.

        Raises:
            WrongUseError: there is no grammar for these tools.
        """
        self._grammars = grammars
        self._opened = opened
        self._grammar = grammars.calls(tools, required=required, several=several, opened=opened)
        self._matcher: llguidance.LLMatcher | None = None
        problem = grammars.matcher(self._grammar)
        if problem.is_error():
            raise WrongUseError(f"the tools' schemas give no grammar: {problem.get_error()}")
        if required:
            self._matcher = problem
        self._tokens: list[int] = []
        self._offsets: list[int] = []
        """The length of the text before each token."""

    def allowed(self, vocabulary: int) -> torch.Tensor | None:
        """Return which tokens may come next, shape (vocabulary,), bool; None allows all.

        Where llguidance gives up on a call, such as at a limit of its own, the answer ends. What is there of
        the call is text then: it is not known to fit.
        """
        if self._matcher is None:
            return None
        if self._matcher.is_error():
            only = torch.zeros(vocabulary, dtype=torch.bool)
            only[list(self._grammars.ends)] = True
            return only
        bits = np.frombuffer(self._matcher.compute_bitmask(), dtype=np.uint8)
        return torch.from_numpy(np.unpackbits(bits, bitorder="little")[:vocabulary].astype(bool))

    def take(self, token: int, before: str, after: str) -> bool:
        """Add a token, and return whether it may stand here. If not, nothing was added.

        Args:
            token: the token.
            before: the answer's text without the token.
            after: the answer's text with it.
        """
        if self._matcher is not None:
            if not self._matcher.is_error():
                self._matcher.consume_token(token)
            return True
        at = self._begun(after)
        if at is not None and not self._start(
            [*self._tokens, token], [*self._offsets, len(before)], after, at
        ):
            return False
        self._tokens.append(token)
        self._offsets.append(len(before))
        return True

    def _begun(self, text: str) -> int | None:
        """Return where a call begins in the text."""
        parser = self._grammars.parser
        if parser.thinking(text, opened=self._opened):
            return None
        thought = parser.thinks and (self._opened or text.lstrip().startswith(OPEN_THOUGHT))
        start = text.index(CLOSE_THOUGHT) + len(CLOSE_THOUGHT) if thought else 0
        at = parser.calls.begin(text[start:])
        return None if at is None else start + at

    def _start(self, tokens: list[int], offsets: list[int], text: str, at: int) -> bool:
        """Begin matching with the token in which the call begins. Return whether the tokens match."""
        first = max(index for index, offset in enumerate(offsets) if offset <= at)
        matcher = self._grammars.matcher(self._grammar, text[offsets[first] : at])
        if matcher.try_consume_tokens(tokens[first:]) < len(tokens) - first:
            return False
        self._matcher = matcher
        return True
