"""The order in which rows are trained on."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from torch.utils.data import Sampler

STEPS_AT_ONCE = 8
"""Rows of so many steps are sorted together: long enough for like lengths, short enough for chance."""


class LikeLengths(Sampler[int]):
    """Yields the numbers of all rows, with those of a step of like length, in an order that an epoch and a
    seed decide: a run that was resumed within an epoch goes on with the same one."""

    def __init__(self, lengths: Sequence[int], step: int, seed: int) -> None:
        self._lengths = lengths
        self._step = step
        self._seed = seed
        self._epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Called by accelerate before each epoch."""
        self._epoch = epoch

    def __len__(self) -> int:
        return len(self._lengths)

    def __iter__(self) -> Iterator[int]:
        draw = random.Random(f"{self._seed} {self._epoch}")  # noqa: S311 - an order, nothing secret
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
