"""The order of training rows."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from torch.utils.data import Sampler

STEPS_AT_ONCE = 8
"""Rows are sorted by length within groups of this many steps: a compromise between padding and randomness."""


class SimilarLengths(Sampler[int]):
    """Yields the indices of all rows in random order, with rows of similar length in each step.

    The order depends only on seed and epoch, so a resumed run continues with the same order.
    """

    def __init__(self, lengths: Sequence[int], step: int, seed: int) -> None:
        self._lengths = lengths
        self._step = step
        self._seed = seed
        self._epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch. accelerate calls this before each epoch."""
        self._epoch = epoch

    def __len__(self) -> int:
        return len(self._lengths)

    def __iter__(self) -> Iterator[int]:
        draw = random.Random(f"{self._seed} {self._epoch}")  # noqa: S311 - not for security
        rows = list(range(len(self._lengths)))
        draw.shuffle(rows)
        steps: list[list[int]] = []
        at_once = self._step * STEPS_AT_ONCE
        for start in range(0, len(rows), at_once):
            alike = sorted(rows[start : start + at_once], key=self._lengths.__getitem__)
            steps += [alike[at : at + self._step] for at in range(0, len(alike), self._step)]
        short = steps.pop() if steps and len(steps[-1]) < self._step else []
        draw.shuffle(steps)
        for step in [*steps, short]:
            yield from step
