"""Looking for references: nobody waits in silence, and stdout stays clean."""

from collections.abc import Sequence
from typing import Any, cast

import pytest

from mcp_bench.bridge.run.display import SILENCE_SECONDS
from mcp_bench.bridge.run.left_out import with_reference
from mcp_bench.recorder.records import PlannedEpisode
from mcp_bench.servers.contracts import Benchmark
from mcp_bench.servers.errors import WrongUseError

pytestmark = pytest.mark.unit


class Slow:
    """A benchmark that takes `seconds` on its own clock to work out a solution, if there is one."""

    name = "slow"

    def __init__(self, seconds: float, unsolved: Sequence[str] = ()) -> None:
        self.now = 1000.0
        self._seconds = seconds
        self._unsolved = unsolved

    def reference(self, task: str) -> list[Any] | None:
        self.now += self._seconds
        return None if task in self._unsolved else []


def looked(bench: Slow, tasks: Sequence[str], repeat: int = 1) -> list[str]:
    episodes = [
        PlannedEpisode(task=task, split="train", domain="d", prompt="p", repeat=number)
        for number in range(repeat)
        for task in tasks
    ]
    return [one.task for one in with_reference(cast(Benchmark, bench), episodes, lambda: bench.now)]


@pytest.mark.parametrize("colour", ["", "1"])
def test_a_long_search_prints_lines(capsys, monkeypatch, colour: str) -> None:
    monkeypatch.setenv("FORCE_COLOR", colour)
    tasks = [f"t{number}" for number in range(8)]
    assert looked(Slow(SILENCE_SECONDS / 3, ["t7"]), tasks, repeat=2) == tasks[:7] * 2
    out, err = capsys.readouterr()
    assert out == "", "stdout is for --json"
    assert err.splitlines() == [
        "[3/8] looking for references",
        "[6/8] looking for references",
        "Left out: 1 task without a reference (t7)",
    ]


def test_a_short_search_is_silent(capsys) -> None:
    assert looked(Slow(0.01), ["a", "b"]) == ["a", "b"]
    assert capsys.readouterr() == ("", "")


def test_names_of_a_few_that_are_left_out(capsys) -> None:
    assert looked(Slow(0.01, ["d", "c", "b", "a"]), ["d", "e", "c", "b", "a"]) == ["e"]
    assert capsys.readouterr().err == "Left out: 4 tasks without a reference (a, b, c, ...)\n"


def test_nothing_is_left() -> None:
    with pytest.raises(WrongUseError, match="'slow' has no reference for these tasks"):
        looked(Slow(0.01, ["a"]), ["a"])
