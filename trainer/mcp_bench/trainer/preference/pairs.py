"""Read and tokenise preference pairs, as `mcp-bench export --pairs` writes them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcp_bench.servers.errors import WrongUseError
from mcp_bench.trainer.data import Example, NothingToTrainOnError, Prepared, example_of
from mcp_bench.trainer.rows import Row, conversation, read_objects
from mcp_bench.trainer.templates import Templates, shows_calls

KEYS = ("prompt", "chosen", "rejected")


@dataclass(frozen=True)
class Pair:
    """Two attempts at one task, each a whole conversation."""

    chosen: Row
    rejected: Row


@dataclass(frozen=True)
class PreparedPairs(Prepared):
    """Tokenised pairs: `examples` are the chosen attempts, `rejected` the others, in the same order."""

    rejected: list[Example] = field(default_factory=list)

    @property
    def lengths(self) -> list[int]:
        both = zip(self.examples, self.rejected, strict=True)
        return [len(chosen.tokens) + len(rejected.tokens) for chosen, rejected in both]

    @property
    def trained_tokens(self) -> int:
        return sum(sum(example.trained) for example in (*self.examples, *self.rejected))

    @property
    def masked_tokens(self) -> int:
        return sum(example.masked for example in (*self.examples, *self.rejected))

    @property
    def longest(self) -> int:
        return max((len(example.tokens) for example in (*self.examples, *self.rejected)), default=0)


def read_pairs(paths: Iterable[Path]) -> list[Pair]:
    """Read all pairs of the files, in order.

    Raises:
        WrongUseError: a file cannot be read, or there are no rows.
        BrokenRowsError: rows are malformed. All files are read first, to report every malformed row.
    """
    return read_objects(paths, _pair)


def _pair(place: str, row: dict[str, Any]) -> Pair:
    missing = [key for key in KEYS if key not in row]
    if missing:
        raise ValueError(
            f"no {missing[0]} (keys: {', '.join(row)}); write pairs with: mcp-bench export --pairs"
        )
    prompt, chosen, rejected = (row[key] for key in KEYS)
    for key in KEYS:
        if not isinstance(row[key], list):
            raise ValueError(f"{key} is not a list of messages")
    tools, task = row.get("tools"), str(row.get("task") or "")
    return Pair(
        conversation(place, [*prompt, *chosen], tools, task),
        conversation(place, [*prompt, *rejected], tools, task),
    )


def prepare_pairs(
    pairs: Sequence[Pair], tokenizer: Any, templates: Templates, max_length: int, *, mask_failed: bool = False
) -> PreparedPairs:
    """Tokenise pairs with the training template; drop those with an attempt that cannot be trained on.

    See `mcp_bench.trainer.data.prepare` for the reasons.
    The loss covers the assistant's tokens of both attempts. Results of tools are read only: they are no
    choice of the model. Neither have turns with the weight 0, or with `mask_failed` those whose calls all
    failed.

    Raises:
        NothingToTrainOnError: no pair is left.
        WrongUseError: a turn has a weight between 0 and 1.
    """
    prepared = PreparedPairs()
    for pair in pairs:
        if not all(shows_calls(tokenizer, templates, row) for row in (pair.chosen, pair.rejected)):
            prepared.unshown.append(pair.chosen.place)
            continue
        chosen, rejected = (
            example_of(row, tokenizer, templates, mask_failed=mask_failed)
            for row in (pair.chosen, pair.rejected)
        )
        if chosen.weights or rejected.weights:
            raise WrongUseError(
                f"{chosen.place}: a turn has a weight between 0 and 1, and a pair compares whole "
                "attempts: use 0 (not trained on) or 1"
            )
        longest = max(len(chosen.tokens), len(rejected.tokens))
        if longest > max_length:
            prepared.too_long.append((chosen.place, longest))
        elif not any(chosen.trained) or not any(rejected.trained):
            prepared.untrainable.append(chosen.place)
        else:
            prepared.examples.append(chosen)
            prepared.rejected.append(rejected)
    if not prepared.examples:
        raise NothingToTrainOnError(
            f"no pairs left to train on: {len(prepared.too_long)} are over data.max_length ({max_length} "
            f"tokens), {len(prepared.untrainable)} have no assistant tokens, {len(prepared.unshown)} have "
            "calls that the chat template leaves out"
        )
    return prepared
