"""The keys and values of all sequences that are decoded together, each from column 0 of a row of its own.

A sequence joins by filling a free row, and leaves by giving its row to the last one, while the others go on.
Rows have different lengths, so a decoding step gets a four-dimensional mask, which transformers' models take
as it is. Layers with a sliding window keep all tokens here, and the mask hides those outside of the window:
this costs memory, and lets a prefix be cut and reused at any length.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from math import prod
from typing import Any

import torch
from transformers.cache_utils import Cache, CacheLayerMixin

from mcp_bench.trainer.engine.kept import KeyValues
from mcp_bench.trainer.engine.row_attention import faster_by_row, takes_row_lengths

STEP = 128
"""Rows grow by at least this many columns at once."""


class Rows:
    """What all layers share: how many tokens each row has, and which rows the current step writes."""

    def __init__(self) -> None:
        self.lengths: list[int] = []
        self.filling: int | None = None
        """The row that a prompt is written to; None: all rows get one token each."""
        self.decoding = 0
        """How many rows get a token."""
        self.capacity = (0, 0)
        """Rows and columns that every layer has room for."""
        self.places: tuple[torch.Tensor | slice, ...] = ()
        """Where the rows' tokens go."""

    def reserve(self, rows: int, columns: int) -> None:
        """Make room for all rows, which are `rows`; the layers change when they are written next."""
        have = self.capacity
        if rows > have[0] or columns > have[1]:
            self.capacity = self.grown(rows, columns)

    def grown(self, rows: int, columns: int) -> tuple[int, int]:
        """Return the capacity with room for all rows, which are `rows`.

        Rows to spare stay for those that come next, but are not widened if they are more than half.
        """
        have = self.capacity
        if columns <= have[1]:
            return max(rows, have[0]), have[1]
        return rows if 2 * rows <= have[0] else max(rows, have[0]), roomy(columns)

    @property
    def seen(self) -> int:
        """The number of tokens before the current step."""
        if self.filling is not None:
            return self.lengths[self.filling]
        return max(self.lengths[: self.decoding], default=0)


def roomy(columns: int) -> int:
    """Return the least of the numbers of columns that rows can have, each a quarter above the one before.

    So rows that grow token by token are copied rarely, and end as wide as if they had grown at once.
    """
    room = STEP
    while room < columns:
        room = room * 5 // 4 // STEP * STEP + STEP
    return room


class RowLayer(CacheLayerMixin):
    """One layer's keys and values, shape (rows, heads, columns, dimensions)."""

    is_sliding = False

    def __init__(self, rows: Rows) -> None:
        self.keys: torch.Tensor | None = None
        self.values: torch.Tensor | None = None
        self.is_initialized = False
        self._rows = rows

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        rows, columns = self._rows.capacity
        old = (self.keys, self.values) if self.is_initialized else (None, None)
        used = max(self._rows.lengths, default=0)
        made = []
        for like, before in zip((key_states, value_states), old, strict=True):
            now = like.new_zeros((rows, like.shape[1], columns, like.shape[3]))
            if before is not None:
                kept = before[:rows, :, :used]
                now[: kept.shape[0], :, :used] = kept
            made.append(now)
        self.keys, self.values = made
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        rows = self._rows
        both = self._with_room(key_states, value_states)
        if rows.filling is not None:
            row, seen = rows.filling, rows.seen
            until = seen + key_states.shape[2]
            for kept, new in zip(both, (key_states, value_states), strict=True):
                kept[row, :, seen:until] = new[0]
            return both[0][row : row + 1, :, :until], both[1][row : row + 1, :, :until]
        for kept, new in zip(both, (key_states, value_states), strict=True):
            kept[rows.places] = new[:, :, 0]
        until = rows.seen + 1
        return both[0][: rows.decoding, :, :until], both[1][: rows.decoding, :, :until]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self._rows.seen + query_length, 0

    def get_seq_length(self) -> int:
        return self._rows.seen

    def get_max_length(self) -> int:
        return -1

    def copy_row(self, source: int, target: int, length: int) -> None:
        for kept in (self.keys, self.values):
            if kept is not None:
                kept[target, :, :length] = kept[source, :, :length].clone()

    def take(self, row: int, length: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self._tensor(0)[row, :, :length].clone(), self._tensor(1)[row, :, :length].clone()

    def put(self, row: int, keys: torch.Tensor, values: torch.Tensor) -> None:
        for kept, new in zip(self._with_room(keys[None], values[None]), (keys, values), strict=True):
            kept[row, :, : new.shape[1]] = new

    def _with_room(self, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the layer's keys and values, with the capacity that all rows have."""
        if (
            not self.is_initialized
            or (self._tensor(0).shape[0], self._tensor(0).shape[2]) != self._rows.capacity
        ):
            self.lazy_initialization(keys, values)
        return self._tensor(0), self._tensor(1)

    def _tensor(self, which: int) -> torch.Tensor:
        found = (self.keys, self.values)[which]
        if found is None:
            raise RuntimeError("nothing was written to this layer yet")
        return found


class RowCache:
    """Decodes sequences together. The last row may be one whose prompt is still being read."""

    whole_prompts = False
    """Whether a prompt must be read at once."""

    def __init__(self, model: Any, windows: Sequence[int | None], *, mask_by_type: bool) -> None:
        """Begin without sequences.

        Args:
            model: a causal language model.
            windows: the sliding window of each layer; None for full attention.
            mask_by_type: whether the model wants a mask for each type of layer.
        """
        self._model = model
        self._rows = Rows()
        self._layers = [RowLayer(self._rows) for _ in windows]
        self._cache = Cache(layers=list(self._layers))
        self._window = next((window for window in windows if window is not None), None)
        self._full = any(window is None for window in windows)
        self._by_type = mask_by_type
        self._last_only = "logits_to_keep" in inspect.signature(model.forward).parameters
        self._by_row = self._window is None and takes_row_lengths(model)

    def __len__(self) -> int:
        return len(self._rows.lengths)

    def length(self, row: int) -> int:
        """Return how many tokens a row has."""
        return self._rows.lengths[row]

    def begin(self, prefix: KeyValues | None, length: int, total: int) -> None:
        """Add a row that begins with `length` tokens of `prefix`, with room for `total`."""
        row = len(self)
        self._rows.reserve(row + 1, total)
        self._rows.lengths.append(0)
        if prefix is not None and length:
            for layer, (keys, values) in zip(self._layers, prefix, strict=True):
                layer.put(row, keys[:, :length], values[:, :length])
            self._rows.lengths[row] = length

    def begin_like(self, source: int, length: int, total: int) -> None:
        """Add a row that begins with the first `length` tokens of another row."""
        self.begin([layer.take(source, length) for layer in self._layers], length, total)

    @property
    def column_bytes(self) -> int:
        """Bytes of one token in one row; 0 before the first prompt."""
        made = [kept for layer in self._layers for kept in (layer.keys, layer.values) if kept is not None]
        return sum(kept.shape[1] * kept.shape[3] * kept.element_size() for kept in made)

    def fits(self, columns: Sequence[int], most_bytes: int) -> bool:
        """Return whether rows with so many columns fit into memory: all rows that are there, and a new one.

        If they only do without the room that rows left behind, that is given up.
        """
        rows, most = self._rows, most_bytes // max(1, self.column_bytes)
        if prod(rows.grown(len(columns), max(columns))) <= most:
            return True
        needed = (len(columns), roomy(max(columns)))
        if prod(needed) > most:
            return False
        rows.capacity = needed
        return True

    def read(self, tokens: torch.Tensor) -> torch.Tensor:
        """Add prompt tokens, shape (tokens,), to the last row; return the scores after them."""
        rows = self._rows
        row = len(self) - 1
        seen = rows.lengths[row]
        rows.filling = row
        rows.reserve(row + 1, seen + len(tokens))
        positions = torch.arange(seen, seen + len(tokens), device=tokens.device)
        scores = self._forward(tokens[None], positions[None], None)
        rows.lengths[row] += len(tokens)
        return scores[0]

    def step(self, tokens: torch.Tensor) -> torch.Tensor:
        """Add one token to each of the first rows, shape (rows,); return their scores, (rows, vocabulary)."""
        rows = self._rows
        lengths = rows.lengths[: len(tokens)]
        rows.filling, rows.decoding = None, len(tokens)
        rows.reserve(len(self), max(lengths) + 1)
        device = tokens.device
        at = torch.tensor(lengths, device=device)
        rows.places = (torch.arange(len(tokens), device=device), slice(None), at)
        now = [length + 1 for length in lengths]
        by_row = self._by_row and faster_by_row(now, self.column_bytes // len(self._layers))
        each = {"row_lengths": now} if by_row else {}  # a model that leaves this out still has the mask
        scores = self._forward(tokens[:, None], at[:, None], self._mask(at, lengths), **each)
        for row in range(len(tokens)):
            rows.lengths[row] += 1
        return scores

    def remove(self, row: int, decoding: int) -> None:
        """Remove one of the first `decoding` rows. The last of them takes its place.

        A row after them, whose prompt is being read, moves up.
        """
        for source, target in ((decoding - 1, row), (len(self) - 1, decoding - 1)):
            if source != target:
                for layer in self._layers:
                    layer.copy_row(source, target, self._rows.lengths[source])
                self._rows.lengths[target] = self._rows.lengths[source]
        self._rows.lengths.pop()
        if not self._rows.lengths:
            self._rows.capacity = (0, 0)
            for layer in self._layers:
                layer.keys = layer.values = None
                layer.is_initialized = False

    def drop_last(self) -> None:
        """Remove the last row."""
        self.remove(len(self) - 1, len(self))

    def take(self, row: int) -> KeyValues:
        """Return copies of a row's keys and values."""
        return [layer.take(row, self._rows.lengths[row]) for layer in self._layers]

    def _mask(self, at: torch.Tensor, lengths: list[int]) -> Any:
        """Return the mask of a step: what is added to the attention scores, shape (rows, 1, 1, columns)."""
        if len(set(lengths)) == 1:
            return None  # the model's own mask is right, and often no mask at all
        columns = torch.arange(max(lengths) + 1, device=at.device)
        past = columns[None] <= at[:, None]
        masks = {"full_attention": past} if self._full else {}
        if self._window is not None:
            masks["sliding_attention"] = past & (columns[None] > at[:, None] - self._window)
        dtype = self._model.dtype
        hidden = torch.finfo(dtype).min
        added = {
            name: torch.zeros(mask.shape, dtype=dtype, device=at.device).masked_fill(~mask, hidden)[
                :, None, None
            ]
            for name, mask in masks.items()
        }
        return added if self._by_type else next(iter(added.values()))

    def _forward(self, tokens: torch.Tensor, positions: torch.Tensor, mask: Any, **more: Any) -> torch.Tensor:
        last = {"logits_to_keep": 1} if self._last_only else {}
        made = self._model(
            input_ids=tokens,
            position_ids=positions,
            attention_mask=mask,
            past_key_values=self._cache,
            use_cache=True,
            **last,
            **more,
        )
        scores: torch.Tensor = made.logits[:, -1].float()
        return scores
