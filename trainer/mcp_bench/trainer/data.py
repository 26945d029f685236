"""Tokenise rows. Rows are never cut, and dropped rows are always counted."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mcp_bench.servers.errors import BenchError, FruitlessError, WrongUseError
from mcp_bench.servers.terminal.sanitize import sanitize_line
from mcp_bench.trainer.rows import Row
from mcp_bench.trainer.templates import (
    Templates,
    accepted,
    assistant_spans,
    failed_turns,
    shows_calls,
    turn_spans,
)


class NothingToTrainOnError(FruitlessError):
    """All rows were dropped; the text says how many for which reason."""


@dataclass(frozen=True)
class Example:
    """A tokenised row. `trained` has a 1 for each token that is trained on and a 0 for each other.

    `masked` counts the assistant's tokens that are not trained on because their calls failed, or their turn
    has the weight 0. `weights` has the weight of each token's loss; None: all are 1.
    """

    place: str
    tokens: array[int]
    trained: bytes
    masked: int = 0
    weights: array[float] | None = None

    def labels(self, ignore: int = -100) -> list[int]:
        """Return the tokens, with `ignore` (torch's ignore_index) for those that are not trained on."""
        pairs = zip(self.tokens, self.trained, strict=True)
        return [token if trained else ignore for token, trained in pairs]


@dataclass(frozen=True)
class Prepared:
    """Rows to train on, and dropped rows: their places, and the token counts of those too long.

    `unshown` has those with calls that the chat template leaves out.
    """

    examples: list[Example] = field(default_factory=list)
    too_long: list[tuple[str, int]] = field(default_factory=list)
    untrainable: list[str] = field(default_factory=list)
    unshown: list[str] = field(default_factory=list)

    @property
    def lengths(self) -> list[int]:
        """The tokens that each row costs in training."""
        return [len(example.tokens) for example in self.examples]

    @property
    def tokens(self) -> int:
        return sum(self.lengths)

    @property
    def trained_tokens(self) -> int:
        return sum(sum(example.trained) for example in self.examples)

    @property
    def masked_tokens(self) -> int:
        return sum(example.masked for example in self.examples)

    @property
    def longest(self) -> int:
        return max((len(example.tokens) for example in self.examples), default=0)


def prepare(
    rows: Iterable[Row],
    tokenizer: Any,
    templates: Templates,
    max_length: int,
    *,
    mask_failed: bool = False,
    limit: str = "data.max_length",
) -> Prepared:
    """Tokenise rows with the training template; drop those that it does not show or that train nothing.

    These are rows over `max_length`, without trained tokens, or with calls that the template leaves out.

    Args:
        rows: the conversations.
        tokenizer: the model's tokenizer.
        templates: the chat templates.
        max_length: the most tokens of a row.
        mask_failed: whether turns whose calls all failed are read, but not trained on.
        limit: what users call `max_length`.

    Raises:
        NothingToTrainOnError: no row is left.
    """
    prepared = Prepared()
    for row in rows:
        if not shows_calls(tokenizer, templates, row):
            prepared.unshown.append(row.place)
            continue
        example = example_of(row, tokenizer, templates, mask_failed=mask_failed)
        if len(example.tokens) > max_length:
            prepared.too_long.append((example.place, len(example.tokens)))
        elif not any(example.trained):
            prepared.untrainable.append(example.place)
        else:
            prepared.examples.append(example)
    if not prepared.examples:
        lengths = [length for _, length in prepared.too_long]
        long = f"{len(lengths)} are over {limit} ({max_length} tokens" + (
            f"; the shortest has {min(lengths)})" if lengths else ")"
        )
        raise NothingToTrainOnError(
            f"no rows left: {long}, {len(prepared.untrainable)} have no assistant tokens, "
            f"{len(prepared.unshown)} have calls that the chat template leaves out"
        )
    return prepared


def example_of(row: Row, tokenizer: Any, templates: Templates, *, mask_failed: bool) -> Example:
    """Return a row's tokens, with the weights of its turns; see `prepare`."""
    example = tokenise(row, tokenizer, templates)
    weights = turn_weights(row, mask_failed=mask_failed)
    return _weighted(example, row, weights, tokenizer, templates) if weights else example


def tokenise(row: Row, tokenizer: Any, templates: Templates) -> Example:
    """Return the tokens of a row, and which of them are the assistant's.

    Raises:
        BenchError: the template fails on this row.
    """
    if not templates.marked:
        return _tokenise_unmarked(row, tokenizer, templates)
    try:
        encoded = tokenizer.apply_chat_template(
            accepted(row.messages, templates.training),
            tools=row.tools,
            chat_template=templates.training,
            tokenize=True,
            return_dict=True,
            return_assistant_tokens_mask=True,
            **templates.variables,
        )
    except Exception as error:  # templates can raise anything
        raise BenchError(
            sanitize_line(f"{row.place}: the chat template fails on this row: {error}")
        ) from error
    return Example(row.place, array("i", encoded["input_ids"]), bytes(encoded["assistant_masks"]))


def _tokenise_unmarked(row: Row, tokenizer: Any, templates: Templates) -> Example:
    """Tokenise with a template that does not mark the assistant's text: it is found by rendering prefixes."""
    if not tokenizer.is_fast:
        raise WrongUseError(
            "the tokenizer has no tokenizer.json, so positions in the text are unknown: set "
            "model.chat_template to a template with {% generation %} marks"
        )
    text = templates.train_text(tokenizer, row)
    spans = assistant_spans(tokenizer, templates, row, text)
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    trained = bytearray(len(encoded["input_ids"]))
    ahead = deque(spans)
    for number, (start, end) in enumerate(encoded["offset_mapping"]):
        while ahead and ahead[0][1] <= start:
            ahead.popleft()
        trained[number] = bool(ahead) and ahead[0][0] <= start and end > start
    return Example(row.place, array("i", encoded["input_ids"]), bytes(trained))


def turn_weights(row: Row, *, mask_failed: bool) -> dict[int, float]:
    """Return the weights of the assistant's turns that are not 1, by the index of the message."""
    weights = {
        turn: float(message.get("weight", 1))
        for turn, message in enumerate(row.messages)
        if message["role"] == "assistant"
    }
    if mask_failed:
        weights |= dict.fromkeys(failed_turns(row.messages), 0.0)
    return {turn: weight for turn, weight in weights.items() if weight != 1}


def _weighted(
    example: Example, row: Row, weights: Mapping[int, float], tokenizer: Any, templates: Templates
) -> Example:
    """Return the example with the weights of its turns. Turns with the weight 0 are not trained on."""
    text = templates.train_text(tokenizer, row)
    spans = turn_spans(tokenizer, templates, row, text)
    if not tokenizer.is_fast:
        raise WrongUseError(
            f"{row.place}: turns have weights, or failed calls are masked, and the tokenizer has no "
            "tokenizer.json, so positions in the text are unknown. Export without --step-weight, and set "
            "data.failed_calls to train"
        )
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    if encoded["input_ids"] != list(example.tokens):
        raise BenchError(f"{row.place}: the chat template's tokens are not those of its text")
    of_tokens = array("f", [1.0]) * len(example.tokens)
    for number, (start, end) in enumerate(encoded["offset_mapping"]):
        for turn, weight in weights.items():
            begun, until = spans[turn]
            if start < until and begun < end:
                of_tokens[number] = min(of_tokens[number], weight)
    trained = bytes(bool(flag and weight) for flag, weight in zip(example.trained, of_tokens, strict=True))
    partly = any(0 < weight < 1 for weight in weights.values())
    masked = sum(example.trained) - sum(trained)
    return Example(example.place, example.tokens, trained, masked, of_tokens if partly else None)
