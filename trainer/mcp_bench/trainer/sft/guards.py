"""Stops a training run that went wrong, before what is good on disk is replaced."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from mcp_bench.servers.errors import BenchError

WINDOW = 20
"""Steps over which a loss is averaged."""
TIMES_THE_LOWEST = 3.0
MARGIN = 1.0
"""A loss explodes when its mean is above three times its lowest mean plus one nat: far out of what a hard
batch or a warm-up does."""


class DivergedError(BenchError):
    """The loss or its gradient is not finite, or the loss explodes; the text says since when, on which rows,
    and which checkpoint is the last good one."""


@dataclass
class LossGuard:
    """Looks at each step's loss and gradient norm."""

    places: Sequence[str]
    """File and line of each row, by its number."""
    lowest: float = math.inf
    recent: deque[float] = field(default_factory=lambda: deque(maxlen=WINDOW))

    def check_batch(self, loss: float, rows: Sequence[int]) -> None:
        """Raises:
        DivergedError: the loss of a batch is not finite.
        """
        if not math.isfinite(loss):
            raise DivergedError(f"the loss is {loss} on {self.named(rows)}")

    def check_step(self, step: int, loss: float, gradient: float, rows: Sequence[int]) -> None:
        """Raises:
        DivergedError: the gradient is not finite, or the loss explodes.
        """
        if not math.isfinite(gradient):
            raise DivergedError(f"the gradient's norm is {gradient} in step {step}, on {self.named(rows)}")
        self.recent.append(loss)
        if len(self.recent) < WINDOW:
            return
        mean = sum(self.recent) / WINDOW
        if mean > self.lowest * TIMES_THE_LOWEST + MARGIN:
            raise DivergedError(
                f"the loss explodes: {mean:.3g} on average over {WINDOW} steps (to step {step}), after "
                f"{self.lowest:.3g} before; the last batch was {self.named(rows)}"
            )
        self.lowest = min(self.lowest, mean)

    def named(self, rows: Sequence[int]) -> str:
        """Return the places of a batch's rows."""
        return ", ".join(self.places[row] for row in rows) if rows else "packed rows"
