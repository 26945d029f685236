"""Handle Ctrl-C, and SIGTERM from batch systems: finish the step, save a checkpoint, stop."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import click
from transformers import TrainerCallback

from mcp_bench.trainer.sft.processes import any_process

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopAfterStep(TrainerCallback):
    """Saves and stops after the step in which a signal arrives."""

    def __init__(self) -> None:
        self.requested = False

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        # signals reach processes at different steps, but all must stop after the same one
        if any_process(self.requested):
            control.should_save = control.should_training_stop = True
        return control

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Stop after the step on the first signal; let SIGINT have its usual effect after that.

        A later SIGTERM changes nothing: launchers send it on, and batch systems send it to all processes, so
        that one stop can arrive twice.

        Python handles signals in the main thread only: in another one, nothing changes.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.getsignal(number) for number in SIGNALS}

        def request(number: int, frame: FrameType | None) -> None:
            if self.requested:
                return
            self.requested = True
            click.echo(
                "Stopping after this step and saving a checkpoint. Press Ctrl-C again to stop now.", err=True
            )
            signal.signal(signal.SIGINT, before[signal.SIGINT])

        for number in SIGNALS:
            signal.signal(number, request)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
