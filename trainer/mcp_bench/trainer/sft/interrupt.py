"""Ctrl-C, and the SIGTERM that a batch system sends before it kills: finish the step, save, stop."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import click
from transformers import TrainerCallback

from mcp_bench.trainer.sft.processes import any_of_them

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopAfterStep(TrainerCallback):
    """Saves and stops at the end of the step in which a signal came."""

    def __init__(self) -> None:
        self.asked = False

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        # signals reach processes at different steps, and all have to stop after the same one
        if any_of_them(self.asked):
            control.should_save = control.should_training_stop = True
        return control

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Take the first signal as a wish; the second one is what it always was."""
        before = {number: signal.getsignal(number) for number in SIGNALS}

        def ask(number: int, frame: FrameType | None) -> None:
            self.asked = True
            click.echo("Stopping after this step, with a checkpoint. Once more stops at once.", err=True)
            self._restore(before)

        for number in SIGNALS:
            signal.signal(number, ask)
        try:
            yield
        finally:
            self._restore(before)

    @staticmethod
    def _restore(handlers: dict[signal.Signals, Any]) -> None:
        for number, handler in handlers.items():
            signal.signal(number, handler)
