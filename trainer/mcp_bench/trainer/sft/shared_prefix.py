"""Batches of rows that begin alike: a common beginning is computed once.

Rows of one server have the same system prompt and list of tools, which are often more than half of their
tokens. The first tokens that several rows of a batch share go through the model once; each row continues
from their keys and values. Gradients flow back through these, so loss and gradient are those of whole rows.
The idea is that of prefix caching in engines, and of Prefix Grouper (https://arxiv.org/abs/2506.05433) in
training. Rows are continued one at a time, so that nothing is padded.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from torch.nn.functional import pad

from mcp_bench.trainer.sft.trainer_inputs import Batches, RightPadding

GROUPS = "groups"
"""The column with the `Group`s of a batch, of shape (groups, 3)."""
LENGTHS = "lengths"
"""The column with the number of tokens of each row, without padding."""
BLOCK = 64
"""Rows are compared by blocks of so many tokens. A shorter beginning is not worth a pass of its own."""
OUTPUTS = ("log_probs", "entropy", "is_top1", "label_mask")
"""What TRL's trainer takes from a model, each of shape (rows, tokens - 1)."""


class Group(NamedTuple):
    """Neighbours in a batch, from the row `first` up to before `last`, that share their first tokens."""

    first: int
    last: int
    shared: int


def common_prefix(rows: Sequence[list[int]], labels: Sequence[Sequence[int]]) -> int:
    """Return how many first tokens some rows can share.

    They are the same in all rows, and none of them, nor the one after them, is trained on: a trained token is
    predicted at the token before it, which has to be in the row's own part.

    Args:
        rows: the tokens of each row.
        labels: the same, with -100 for tokens that are not trained on.
    """
    if len(rows) < 2:
        return 0
    most = min(len(row) for row in rows) - 1
    for of_row in labels:
        first = next((at for at, label in enumerate(of_row) if label != -100), len(of_row))
        most = min(most, first - 1)
    least, greatest = min(rows), max(rows)  # these differ earliest
    same = next((at for at in range(max(most, 0)) if least[at] != greatest[at]), max(most, 0))
    return same if same >= BLOCK else 0


def groups_of(rows: Sequence[list[int]], labels: Sequence[Sequence[int]]) -> list[Group]:
    """Return the rows of a batch in groups, such that as few tokens as possible are computed."""
    saved = [0]
    ending: list[Group] = []  # the last group of the best division of so many rows
    for last in range(1, len(rows) + 1):
        options = [
            Group(first, last, common_prefix(rows[first:last], labels[first:last])) for first in range(last)
        ]
        gains = [saved[one.first] + (one.last - one.first - 1) * one.shared for one in options]
        saved.append(max(gains))
        ending.append(options[gains.index(saved[-1])])
    found: list[Group] = []
    last = len(rows)
    while last:
        found.append(ending[last - 1])
        last = found[-1].first
    return found[::-1]


@dataclass(frozen=True)
class SharedPrefixes:
    """Collates a batch as `RightPadding` does, with the groups and the lengths of its rows."""

    padding: RightPadding

    def __call__(self, batch: list[dict[str, Any]]) -> dict[str, Any]:
        rows, labels = ([row[name] for row in batch] for name in ("input_ids", "labels"))
        found = self.padding(batch)
        found[GROUPS] = torch.tensor(groups_of(rows, labels))
        found[LENGTHS] = torch.tensor([len(row) for row in rows])
        return found


@dataclass(frozen=True)
class Continued:
    """A model that is called with a batch of `SharedPrefixes`, and computes each common beginning once."""

    model: Any

    def __call__(self, **inputs: Any) -> Any:
        ids, labels, lengths = inputs["input_ids"], inputs["labels"], inputs[LENGTHS].tolist()
        found: dict[str, list[Any]] = {name: [] for name in OUTPUTS}
        for first, last, shared in inputs[GROUPS].tolist():
            beginning = self._beginning(ids[first : first + 1, :shared])
            for row in range(first, last):
                own = slice(row, row + 1), slice(shared, lengths[row])
                outputs = self.model(
                    input_ids=ids[own],
                    labels=labels[own],
                    past_key_values=self._copy(beginning),
                    fused_lm_head=True,
                )
                around = (shared, ids.shape[1] - lengths[row])
                for name, values in found.items():
                    values.append(pad(getattr(outputs, name), around))
        return SimpleNamespace(**{name: torch.cat(values) for name, values in found.items()})

    def _beginning(self, ids: torch.Tensor) -> Any:
        """Return the keys and values of the tokens, of shape (1, tokens), with their gradients."""
        from transformers import DynamicCache

        kept = DynamicCache(config=self.model.config)
        if ids.numel():
            self.model(input_ids=ids, past_key_values=kept, use_cache=True, logits_to_keep=1)
        return kept

    def _copy(self, beginning: Any) -> Any:
        """Return a cache that a row can add its own keys and values to."""
        from transformers import DynamicCache

        kept = DynamicCache(config=self.model.config)
        for number, layer in enumerate(beginning.layers):
            if layer.is_initialized:
                kept.update(layer.keys, layer.values, number)
        return kept


class SimilarBeginnings(Batches):
    """Rows with a long common beginning are in the same batch."""

    def __init__(self, rows: Sequence[array[int]], batch: int, seed: int) -> None:
        super().__init__(len(rows), batch, seed)
        self._rows = rows

    def arranged(self, draw: random.Random) -> list[int]:
        salt = draw.randbytes(8)
        beginnings = [_beginnings(row, salt) for row in self._rows]
        return sorted(range(len(beginnings)), key=beginnings.__getitem__)


def _beginnings(row: array[int], salt: bytes) -> list[bytes]:
    """Return a hash of the row up to each block. Sorted, they put rows side by side that begin alike."""
    digest, found = blake2b(salt, digest_size=8), []
    for at in range(0, len(row), BLOCK):
        digest.update(row[at : at + BLOCK].tobytes())
        found.append(digest.digest())
    return found
