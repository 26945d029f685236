"""How long a base model is trained, on texts of which length."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

STEPS = 750
WARMUP = 20
"""Steps until the learning rate is reached."""
DECAY = 0.4
"""Share of the steps, the last ones, over which it goes to 0 (Hägele et al. 2024, arXiv:2405.18392)."""


@dataclass(frozen=True)
class Stage:
    """A share of the steps, with `sequences` of `length` tokens each."""

    share: float
    sequences: int
    length: int


STAGES = (Stage(0.32, 32, 64), Stage(0.32, 16, 128), Stage(0.36, 6, 512))
"""Short texts first: a model learns to copy from what is near some times sooner than from what is far, and
then needs little to do it from further away. Tried before cues were learned from (see recall_text.py): on
texts of length 256 copying began after 0.6 to 0.7 million tokens that way, and after 1.2 to 1.8 million
without."""


@dataclass(frozen=True)
class Schedule:
    """`steps` in all, and the highest learning rates: of embeddings and norms, and of Muon's matrices."""

    steps: int = STEPS
    stages: tuple[Stage, ...] = STAGES
    learning_rate: float = 3e-3
    muon_learning_rate: float = 0.02

    def shapes(self) -> Iterator[tuple[int, int]]:
        """Yield sequences and length of each step."""
        end, begun = 0.0, 0
        for stage in self.stages:
            end += stage.share
            for _ in range(begun, round(end * self.steps)):
                yield stage.sequences, stage.length
            begun = round(end * self.steps)

    def rate(self, step: int) -> float:
        """Return the share of the learning rates that step `step`, from 0, has."""
        return min(1.0, (step + 1) / WARMUP, (self.steps - step) / (self.steps * DECAY))
