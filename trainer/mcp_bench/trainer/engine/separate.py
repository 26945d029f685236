"""One cache for each sequence: for models whose caches cannot share a batch.

Linear attention carries a state that cannot be cut at an earlier token, and some models take no mask of their
own. Their sequences are decoded one after the other, each as `generate` would, and share no prefix.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch
from transformers import DynamicCache

from mcp_bench.trainer.engine.kept import KeyValues


class SeparateCaches:
    """Decodes sequences one by one; the same methods as `RowCache`."""

    whole_prompts = True
    column_bytes = 0

    def __init__(self, model: Any) -> None:
        self._model = model
        self._caches: list[Any] = []
        self._lengths: list[int] = []
        self._last_only = "logits_to_keep" in inspect.signature(model.forward).parameters

    def __len__(self) -> int:
        return len(self._caches)

    def length(self, row: int) -> int:
        """Return how many tokens a sequence has."""
        return self._lengths[row]

    def begin(self, prefix: KeyValues | None, length: int, total: int) -> None:
        """Add a sequence."""
        self._caches.append(DynamicCache(config=self._model.config))
        self._lengths.append(0)

    def begin_like(self, source: int, length: int, total: int) -> None:
        """Add a sequence; nothing is shared."""
        self.begin(None, 0, total)

    def read(self, tokens: torch.Tensor) -> torch.Tensor:
        """Add the prompt's tokens to the last sequence; return the scores after them."""
        return self._forward(len(self) - 1, tokens)

    def step(self, tokens: torch.Tensor) -> torch.Tensor:
        """Add one token to each of the first sequences; return their scores."""
        return torch.stack([self._forward(row, tokens[row : row + 1]) for row in range(len(tokens))])

    def remove(self, row: int, decoding: int) -> None:
        """Remove a sequence as `RowCache.remove` does."""
        for kept in (self._caches, self._lengths):
            kept[row] = kept[decoding - 1]
            kept[decoding - 1] = kept[-1]
            kept.pop()

    def drop_last(self) -> None:
        """Remove the last sequence."""
        self._caches.pop()
        self._lengths.pop()

    def take(self, row: int) -> KeyValues | None:
        """Return None: nothing is kept."""
        return None

    def _forward(self, row: int, tokens: torch.Tensor) -> torch.Tensor:
        last = {"logits_to_keep": 1} if self._last_only else {}
        made = self._model(input_ids=tokens[None], past_key_values=self._caches[row], use_cache=True, **last)
        self._lengths[row] += len(tokens)
        scores: torch.Tensor = made.logits[0, -1].float()
        return scores
