"""Attention of one new token a row, in a batch whose rows have very different lengths.

As one product, every row is as long as the longest, and a mask hides the rest: next to a conversation of
6,000 tokens, fifteen of 600 read ten times as many keys and values as they have. Then each row is taken to
its own length.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

NAME = "mcp_bench_rows"
"""The implementation's name in transformers."""
WORTH = 300_000
"""Bytes of keys and values that each row has to save on average: a product of its own costs time, too."""


def attend_by_rows(model: Any) -> None:
    """Let a model on a CPU take the argument `row_lengths` if it uses torch's attention."""
    if model.device.type == "cpu" and model.config._attn_implementation == "sdpa":
        AttentionInterface.register(NAME, _attend)
        AttentionMaskInterface.register(NAME, sdpa_mask)
        model.set_attn_implementation(NAME)


def takes_row_lengths(model: Any) -> bool:
    return bool(model.config._attn_implementation == NAME)


def faster_by_row(lengths: Sequence[int], column_bytes: int) -> bool:
    """Return whether rows of these lengths are attended to faster one by one.

    Args:
        lengths: the columns of each row.
        column_bytes: what a column of a row takes in one layer.
    """
    saved = len(lengths) * max(lengths) - sum(lengths)
    return saved * column_bytes > WORTH * len(lengths)


def _attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    row_lengths: Sequence[int] | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """Attend as transformers does with `sdpa`.

    Args:
        module: the layer's attention.
        query: of shape (rows, heads, new tokens, dimensions).
        key: of shape (rows, heads of keys, columns, dimensions).
        value: likewise.
        attention_mask: what is added to the scores, or None.
        row_lengths: the columns of each row, with one new token; in place of the mask.
        options: the other arguments.

    Returns:
        the outputs, of shape (rows, new tokens, heads, dimensions), and no weights.
    """
    if row_lengths is None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, **options)
    made = [
        sdpa_attention_forward(
            module,
            query[row : row + 1],
            key[row : row + 1, :, :length],
            value[row : row + 1, :, :length],
            None,
            **options,
        )[0]
        for row, length in enumerate(row_lengths)
    ]
    return torch.cat(made), None
