"""Keys and values of finished sequences, kept for the next request that begins with the same tokens.

The turns of an agent extend one conversation, and all episodes share the system prompt and the tools. What
was computed for them is not computed again.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
import torch

KeyValues = list[tuple[torch.Tensor, torch.Tensor]]
"""Keys and values of each layer, each of shape (heads, tokens, dimensions)."""


@dataclass(frozen=True)
class Entry:
    """One kept sequence."""

    tokens: np.ndarray[tuple[int], np.dtype[np.int64]]
    layers: KeyValues
    size: int
    """Bytes."""


class KeptPrefixes:
    """The sequences that were used last, up to a number of bytes."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._entries: OrderedDict[int, Entry] = OrderedDict()
        self._next = 0
        self.size = 0
        """Bytes that are kept now; never more than the limit."""

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, tokens: list[int], layers: KeyValues) -> None:
        """Keep a sequence. Sequences that are a prefix of it are dropped, and then those used longest ago."""
        size = sum(part.numel() * part.element_size() for pair in layers for part in pair)
        if size > self._most or not tokens:
            return
        added = Entry(np.asarray(tokens, dtype=np.int64), layers, size)
        for key, entry in list(self._entries.items()):
            if shared(entry.tokens, added.tokens) == len(entry.tokens):
                self._drop(key)
        while self.size + size > self._most:
            self._drop(next(iter(self._entries)))
        self._entries[self._next] = added
        self._next += 1
        self.size += size

    def clear(self) -> None:
        """Drop all sequences."""
        self._entries.clear()
        self.size = 0

    def longest(self, tokens: list[int]) -> tuple[KeyValues | None, int]:
        """Return the kept sequence that shares the most first tokens with `tokens`, and how many."""
        wanted = np.asarray(tokens, dtype=np.int64)
        best, most = None, 0
        for key, entry in self._entries.items():
            length = shared(entry.tokens, wanted)
            if length > most:
                best, most = key, length
        if best is None:
            return None, 0
        self._entries.move_to_end(best)
        return self._entries[best].layers, most

    def _drop(self, key: int) -> None:
        self.size -= self._entries.pop(key).size


def shared(
    one: np.ndarray[tuple[int], np.dtype[np.int64]], other: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> int:
    """Return how many first tokens two sequences share."""
    length = min(len(one), len(other))
    different = np.flatnonzero(one[:length] != other[:length])
    return int(different[0]) if len(different) else length
