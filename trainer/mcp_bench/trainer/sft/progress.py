"""Show training progress: a live line on a terminal, occasional lines elsewhere."""

from __future__ import annotations

import resource
import sys
import time
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TextIO

GIB = 2**30
QUIET_SECONDS = 15.0
PACE_STEPS = 30
"""Number of recent steps to measure speed over. The first steps of a run are slower."""


class Progress:
    """Measures speed, memory and remaining time after each step, and shows them."""

    def __init__(
        self,
        out: TextIO = sys.stderr,
        *,
        on_gpu: bool,
        shown: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._out = out
        self._on_gpu = on_gpu
        self._clock = clock
        self._recent: deque[tuple[float, int]] = deque(maxlen=PACE_STEPS)
        self._recent.append((clock(), 0))
        self._tokens = 0
        self._shown = clock()
        self._live = shown and out.isatty()
        self._visible = shown

    def step(self, step: int, steps: int, loss: float, tokens: int, more: str = "") -> dict[str, Any]:
        """Record a finished step with its tokens, and return its figures for the metrics file."""
        now = self._clock()
        self._tokens += tokens
        self._recent.append((now, self._tokens))
        began, before = self._recent[0]
        seconds = max(now - began, 1e-9)
        speed = (self._tokens - before) / seconds
        memory = peak_memory(on_gpu=self._on_gpu)
        per_step = seconds / max(1, len(self._recent) - 1)
        left = per_step * (steps - step)
        if self._visible and (self._live or now - self._shown >= QUIET_SECONDS or step == steps):
            self._shown = now
            parts = [f"step {step}/{steps}", f"loss {loss:.4f}", *([more] if more else [])]
            parts += [
                f"{speed:,.0f} tokens/s",
                f"{memory / GIB:.1f} GiB",
                f"{timedelta(seconds=round(left))} left",
            ]
            text = "  ".join(parts)
            self._out.write(f"\r\x1b[2K{text}" if self._live else f"{text}\n")
            self._out.flush()
        return {"tokens": tokens, "tokens_per_second": round(speed, 1), "memory_bytes": memory}

    def note(self, text: str) -> None:
        """Show a line of its own."""
        if self._visible:
            self._out.write(f"\r\x1b[2K{text}\n" if self._live else f"{text}\n")
            self._out.flush()

    def close(self) -> None:
        """End the live line."""
        if self._live:
            self._out.write("\n")


def peak_memory(*, on_gpu: bool) -> int:
    """Return the peak memory of the GPU or of this process, in bytes."""
    if on_gpu:
        import torch

        return int(torch.cuda.max_memory_allocated())
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
