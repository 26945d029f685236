"""Tokenised rows as a dataset, and batches of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mcp_bench.trainer.data import Example

ROWS = "rows"
"""The column that says which examples a batch has, for messages. It never reaches the model."""


def dataset(examples: Sequence[Example], *, packing: bool) -> Any:
    """Return a `datasets.Dataset` of `input_ids` and `labels`. These are integers: nothing that Arrow could
    fill in. Packed rows lose their numbers, since TRL makes new ones of them."""
    from datasets import Dataset

    columns: dict[str, Any] = {
        "input_ids": [example.tokens.tolist() for example in examples],
        "labels": [example.labels() for example in examples],
    }
    if not packing:
        columns[ROWS] = list(range(len(examples)))
    return Dataset.from_dict(columns)


@dataclass(frozen=True)
class RightPadding:
    """Makes a batch: (sequences, longest) of tokens, padded at the end, and labels with -100 there.

    The attention mask is all ones. What is padded comes last, so that under causal attention no real token
    sees it, and its loss is not counted: the same result, but attention needs no mask matrix.
    """

    pad: int
    multiple: int = 1

    def __call__(self, batch: list[dict[str, Any]]) -> dict[str, Any]:
        import torch

        longest = max(len(row["input_ids"]) for row in batch)
        longest += -longest % self.multiple
        ids = torch.full((len(batch), longest), self.pad)
        labels = torch.full((len(batch), longest), -100)
        for number, row in enumerate(batch):
            ids[number, : len(row["input_ids"])] = torch.tensor(row["input_ids"])
            labels[number, : len(row["labels"])] = torch.tensor(row["labels"])
        rows = torch.tensor([row[ROWS] for row in batch])
        return {"input_ids": ids, "labels": labels, "attention_mask": torch.ones_like(ids), ROWS: rows}
