"""Where the time of an episode went."""

from __future__ import annotations

import pytest

from mcp_bench.bridge.viewer.conversation import Call, Turn
from mcp_bench.bridge.viewer.timeline import timeline
from mcp_bench.bridge.viewer.trees import draw_value

pytestmark = pytest.mark.unit


def call(at: int | None, took: float | None, *, failed: bool = False) -> Call:
    return Call(1, 1, "find", "", draw_value({}), "ok", failed, at, took)


def test_turns_and_calls_are_shares_of_the_time() -> None:
    turns = [
        Turn(0, "user"),
        Turn(1, "assistant", 1, at=2_000_000, took=1_000.0, calls=[call(2_000_000, 500.0)]),
        Turn(3, "assistant", 2, at=4_000_000, took=1_000.0, calls=[call(4_000_000, 250.0, failed=True)]),
    ]
    found = timeline(turns, 10.0)
    assert [(one.kind, one.begin, one.length) for one in found.spans] == [
        ("model", 0.1, 0.1), ("tool", 0.2, 0.05), ("model", 0.3, 0.1), ("failed", 0.4, 0.025),
    ]  # fmt: skip
    assert found.took("model") == 2_000.0
    assert found.took("tool", "failed") == 750.0


def test_times_that_are_not_known_are_left_out() -> None:
    turns = [Turn(0, "assistant", 1, at=5, calls=[call(5, None), call(None, None)])]
    assert timeline(turns, 1.0).spans == []
    assert timeline(turns, 1.0).took("model") is None
    assert timeline([Turn(0, "assistant", 1, at=5, took=1.0)], None).spans == []


def test_a_clock_that_was_set_draws_nothing_outside() -> None:
    turns = [Turn(0, "assistant", 1, at=-9_000_000, took=1.0, calls=[call(99_000_000, 5_000.0)])]
    assert [(one.begin, one.length) for one in timeline(turns, 2.0).spans] == [(0.0, 0.0005), (1.0, 0.0)]
