"""The training schedule of a tiny base model: steps, text lengths and learning rates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

STEPS = 750
WARMUP = 20
"""Steps until the full learning rate is reached."""
DECAY = 0.4
"""Final share of the steps over which the rate decays to 0 (Hägele et al. 2024, arXiv:2405.18392)."""


@dataclass(frozen=True)
class Stage:
    """A share of the steps, each with `sequences` sequences of `length` tokens."""

    share: float
    sequences: int
    length: int


STAGES = (Stage(0.32, 32, 64), Stage(0.32, 16, 128), Stage(0.36, 6, 512))
"""Short texts come first: a model learns to copy over short distances several times sooner, and then extends
that quickly. Measured before cues were trained on (see recall_text.py): on texts of length 256, copying began
after 0.6 to 0.7 million tokens with this curriculum, and after 1.2 to 1.8 million without it."""


@dataclass(frozen=True)
class Schedule:
    """Total steps and peak learning rates. `muon_learning_rate` is for Muon's matrices."""

    steps: int = STEPS
    stages: tuple[Stage, ...] = STAGES
    learning_rate: float = 3e-3
    muon_learning_rate: float = 0.02

    def shapes(self) -> Iterator[tuple[int, int]]:
        """Yield (sequences, length) of each step."""
        end, begun = 0.0, 0
        for stage in self.stages:
            end += stage.share
            for _ in range(begun, round(end * self.steps)):
                yield stage.sequences, stage.length
            begun = round(end * self.steps)

    def rate(self, step: int) -> float:
        """Return the factor of the learning rates at `step`, counted from 0."""
        return min(1.0, (step + 1) / WARMUP, (self.steps - step) / (self.steps * DECAY))
