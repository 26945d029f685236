"""Signals during training: the step is finished and saved, and only a second Ctrl-C stops at once."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from mcp_bench.trainer.sft.interrupt import StopAfterStep

pytestmark = pytest.mark.unit


@contextmanager
def caught() -> Iterator[list[int]]:
    """Give the signals that arrive at this process's own handlers."""
    arrived: list[int] = []
    before = {
        number: signal.signal(number, lambda number, frame: arrived.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    yield arrived
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
def test_only_a_second_interrupt_stops_at_once(first: signal.Signals) -> None:
    """A batch system and a launcher both send SIGTERM: the second one must not lose the checkpoint."""
    stop, control = StopAfterStep(), SimpleNamespace(should_save=False, should_training_stop=False)
    with caught() as arrived:
        with stop.listening():
            signal.raise_signal(first)
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGTERM)
            assert arrived == []
            stop.on_step_end(None, None, control)
            assert control.should_save and control.should_training_stop
            signal.raise_signal(signal.SIGINT)
            assert arrived == [signal.SIGINT]
        signal.raise_signal(signal.SIGTERM)
        assert arrived == [signal.SIGINT, signal.SIGTERM]
