"""Build the dataset of tokenised rows, and collate its batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mcp_bench.trainer.data import Example

ROWS = "rows"
"""The column with the index of each row, for error messages. It never reaches the model."""


def dataset(examples: Sequence[Example], *, packing: bool) -> Any:
    """Return a `datasets.Dataset` of `input_ids`, `labels` and, unless packed, row indices.

    Arrow cannot alter these, since all values are integers. TRL combines packed rows into new ones, so
    these have no index.
    """
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
    """Collates a batch: tokens of shape (sequences, longest), padded at the end, with label -100 there.

    The attention mask is all ones. Under causal attention no real token sees the padding after it, and the
    padding has no loss: the result is the same without a mask matrix.
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
