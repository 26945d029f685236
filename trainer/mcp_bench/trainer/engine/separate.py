"""One cache for each sequence: for models whose caches cannot share a batch.

Linear attention carries a state that cannot be cut at an earlier token, some models take no mask of their
own, and some rotate positions by the length of the longest sequence. Their sequences are decoded one after
the other, each as `generate` would, and share no prefix.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from transformers import DynamicCache

from mcp_bench.trainer.engine.kept import KeyValues


class SeparateCaches:
    """Decodes sequences one by one; the same methods as `RowCache`."""

    whole_prompts = True

    def __init__(self, model: Any, turn: int | None = None) -> None:
        """Begin without sequences.

        Args:
            model: a causal language model.
            turn: with more tokens than this, the model rotates all positions in another way (longrope).
        """
        self._model, self._turn = model, turn
        self._caches: list[Any] = []
        self._texts: list[torch.Tensor] = []
        self._last_only = "logits_to_keep" in inspect.signature(model.forward).parameters

    def __len__(self) -> int:
        return len(self._caches)

    def length(self, row: int) -> int:
        """Return how many tokens a sequence has."""
        return len(self._texts[row])

    def fits(self, columns: Sequence[int], most_bytes: int) -> bool:
        """Return whether keys and values of sequences with so many tokens fit into memory.

        The states of linear attention have a fixed size and are not counted.
        """
        layers = self._caches[0].layers if self._caches else ()
        kept = [getattr(layer, name, None) for layer in layers for name in ("keys", "values")]
        made = [one for one in kept if one is not None and one.dim() == 4]
        token_bytes: int = sum(one.shape[1] * one.shape[3] * one.element_size() for one in made)
        return sum(columns) * token_bytes <= most_bytes

    def begin(self, prefix: KeyValues | None, length: int, total: int) -> None:
        """Add a sequence."""
        self._caches.append(DynamicCache(config=self._model.config))
        self._texts.append(torch.empty(0, dtype=torch.long, device=self._model.device))

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
        for kept in (self._caches, self._texts):
            kept[row] = kept[decoding - 1]
            kept[decoding - 1] = kept[-1]
            kept.pop()

    def drop_last(self) -> None:
        """Remove the last sequence."""
        self._caches.pop()
        self._texts.pop()

    def take(self, row: int) -> KeyValues | None:
        """Return None: nothing is kept."""
        return None

    def _forward(self, row: int, tokens: torch.Tensor) -> torch.Tensor:
        last = {"logits_to_keep": 1} if self._last_only else {}
        before, text = self._texts[row], torch.cat([self._texts[row], tokens])
        if self._turn is not None and 0 < len(before) <= self._turn < len(text):
            self._caches[row] = DynamicCache(config=self._model.config)  # its keys are rotated the old way
            tokens = text
        made = self._model(input_ids=tokens[None], past_key_values=self._caches[row], use_cache=True, **last)
        self._texts[row] = text
        scores: torch.Tensor = made.logits[0, -1].float()
        return scores
