"""Stop a diverging training run before it replaces good checkpoints."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from mcp_bench.servers.errors import FruitlessError

WINDOW = 20
"""Number of steps to average the loss over."""
TIMES_THE_LOWEST = 3.0
MARGIN = 1.0
"""The loss has exploded if its mean exceeds three times its lowest mean plus one nat.
Hard batches and warm-up stay far below that."""


class DivergedError(FruitlessError):
    """The loss or gradient is not finite, or the loss exploded.

    The text names the step, the rows and the last good checkpoint.
    """


@dataclass
class LossGuard:
    """Checks the loss and gradient norm of each step."""

    places: Sequence[str]
    """`FILE:LINE` of each row, by index."""
    lowest: float = math.inf
    recent: deque[float] = field(default_factory=lambda: deque(maxlen=WINDOW))

    def check_batch(self, loss: float, rows: Sequence[int], *, elsewhere: bool = False) -> None:
        """Check the loss of a batch.

        Args:
            loss: of this process.
            rows: of this process.
            elsewhere: that of a process is not finite.

        Raises:
            DivergedError: the loss is not finite, here or elsewhere.
        """
        if not math.isfinite(loss):
            raise DivergedError(f"the loss is {loss} on {self.named(rows)}")
        if elsewhere:
            raise DivergedError("the loss of another process is not finite")

    def check_step(self, step: int, loss: float, gradient: float, rows: Sequence[int]) -> None:
        """Check the mean loss and the gradient norm of a step.

        Raises:
            DivergedError: the gradient norm is not finite, or the loss exploded.
        """
        if not math.isfinite(gradient):
            raise DivergedError(f"the gradient norm is {gradient} in step {step}, on {self.named(rows)}")
        self.recent.append(loss)
        if len(self.recent) < WINDOW:
            return
        mean = sum(self.recent) / WINDOW
        if mean > self.lowest * TIMES_THE_LOWEST + MARGIN:
            raise DivergedError(
                f"the loss exploded: its mean over {WINDOW} steps (until step {step}) is {mean:.3g}, up from "
                f"{self.lowest:.3g}; the last batch was {self.named(rows)}"
            )
        self.lowest = min(self.lowest, mean)

    def named(self, rows: Sequence[int]) -> str:
        """Return the places of rows as text."""
        return ", ".join(self.places[row] for row in rows) if rows else "packed rows"
