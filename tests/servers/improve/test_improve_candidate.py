"""What one version of a target may use: time, also while it loads, and what it may answer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import anyio
import numpy as np
import pytest

from mcp_bench.servers.improve.candidate import (
    MOST_BYTES,
    MOST_TEXT,
    MOST_TOGETHER,
    PATIENCE,
    Candidate,
    CrashError,
)
from mcp_bench.servers.improve.inside import values
from mcp_bench.servers.improve.measure import MOST_NUMBERS, difference, losses
from mcp_bench.servers.improve.task_file import read_task
from mcp_bench.servers.sandbox import Answers, Sandbox
from tests.support.improvement.small_task import write_task

pytestmark = pytest.mark.unit
SECONDS = 20
"""That a measurement of `write_task` may take."""


class Scripted:
    """A stand-in for a sandbox whose program takes the same time for each start, and gives the same answers."""

    def __init__(self, *, wall: float = 0.0, used: float = 0.0, waited: float = 0.0) -> None:
        self.wall, self.used, self.waited = wall, used, waited
        self.value = values.pack({"value": None})
        self.starts = 0
        self.most: list[tuple[int, int]] = []
        """Of each request: the questions, and the limit of an answer."""

    async def renew(self, *_: object, **__: object) -> None:
        return

    async def start(self, *_: object, **__: object) -> Answers:
        self.starts += 1
        return Answers(
            bodies=(values.pack({"value": None}),), cpu_seconds=(self.used,), clock="process",
            seconds=self.wall, waited=self.waited,
        )  # fmt: skip

    async def ask(self, questions: Sequence[bytes], *, most: int, **_: object) -> Answers:
        self.most.append((len(questions), most))
        number = len(questions)
        return Answers(
            bodies=(self.value,) * number, cpu_seconds=(0.0,) * number, clock="process", seconds=0.0
        )


def started(place: Path, sandbox: Scripted, times: int) -> None:
    async def start() -> None:
        candidate = Candidate(read_task(write_task(place)), {}, cast("Sandbox", sandbox))
        await candidate.begin()
        for _ in range(times - 1):
            await candidate.start()

    anyio.run(start)


def test_a_program_that_sleeps_while_it_loads_is_ended(tmp_path: Path) -> None:
    """All its processes together may sleep ten times the limit of processor time."""
    sandbox = Scripted(wall=SECONDS * PATIENCE / 4, used=0.01)
    with pytest.raises(CrashError, match="timeout: the time of this measurement is over") as raised:
        started(tmp_path, sandbox, 100)
    assert raised.value.kind == "timeout"
    assert sandbox.starts == 5


@pytest.mark.parametrize(("used", "waited"), [(5.0, 0.0), (0.01, 5.0)])
def test_a_program_that_computes_or_waits_for_a_processor_while_it_loads_goes_on(
    tmp_path: Path, used: float, waited: float
) -> None:
    sandbox = Scripted(wall=5.0, used=used, waited=waited)
    started(tmp_path, sandbox, 60)
    assert sandbox.starts == 60


def test_a_second_process_without_files_has_no_time_of_its_own(tmp_path: Path) -> None:
    """As in the kind `codec`, where another process decompresses."""
    sandbox = Scripted(wall=SECONDS * PATIENCE * 0.6)

    async def begun() -> None:
        candidate = Candidate(read_task(write_task(tmp_path)), {}, cast("Sandbox", sandbox))
        await candidate.begin()
        await candidate.begin_again()

    with pytest.raises(CrashError, match="timeout"):
        anyio.run(begun)


def answered(place: Path, sandbox: Scripted, questions: int) -> list[Any]:
    async def ask() -> list[Any]:
        candidate = Candidate(read_task(write_task(place)), {}, cast("Sandbox", sandbox))
        await candidate.begin()
        return (await candidate.calls([("solve", [1])] * questions))[0]

    return anyio.run(ask)


def test_answers_of_one_kind_are_short_or_arrays(tmp_path: Path) -> None:
    """JSON becomes many times larger when it is read, so all of it together has a limit."""
    sandbox = Scripted()
    sandbox.value = values.pack({"value": [[]] * (MOST_TEXT // 8)})
    assert len(answered(tmp_path, sandbox, 1)) == 1
    with pytest.raises(CrashError, match=r"too_long_answer: .* bytes of JSON.* bytes or arrays") as raised:
        answered(tmp_path, sandbox, 3)
    assert raised.value.kind == "too_long_answer"
    sandbox.value = values.pack({"value": bytes(MOST_TEXT)})
    assert [len(one) for one in answered(tmp_path, sandbox, 3)] == [MOST_TEXT] * 3


def test_parts_without_end_are_refused(tmp_path: Path) -> None:
    sandbox = Scripted()
    text = json.dumps({"value": 1}).encode()
    sizes = [len(text), *[0] * (MOST_TEXT // 8)]
    sandbox.value = b"".join([values.LENGTH.pack(len(sizes)), *map(values.LENGTH.pack, sizes), text])
    with pytest.raises(CrashError, match="too_long_answer"):
        answered(tmp_path, sandbox, 1)


def test_many_answers_have_a_limit_together(tmp_path: Path) -> None:
    sandbox = Scripted()
    sandbox.value = values.pack({"value": bytes(1000)})
    for number in (1, 2, 7, 1000):
        sandbox.most.clear()
        assert len(answered(tmp_path, sandbox, number)) == number
        assert sum(count for count, _ in sandbox.most) == number
        assert all(count * most <= MOST_TOGETHER and most <= MOST_BYTES for count, most in sandbox.most)
    sandbox.value = values.pack({"value": bytes(MOST_TOGETHER // 200)})
    sandbox.most.clear()
    with pytest.raises(CrashError, match=r"too_long_answer: .* all answers together"):
        answered(tmp_path, sandbox, 1000)
    assert sum(count for count, _ in sandbox.most) < 500, "it was not asked further"


class Huge(np.ndarray[Any, Any]):
    """An array that must not become a list."""

    def tolist(self) -> Any:
        raise AssertionError("a list of it would need the memory of this process")


def test_an_array_that_is_wrong_by_its_shape_is_never_a_list() -> None:
    huge = np.zeros((2, MOST_NUMBERS), np.int8).view(Huge)
    for expected in ([1, 2], np.zeros(3), 5, "text"):
        assert "numbers" in difference(expected, huge, 0.0)
    with pytest.raises(CrashError, match="a list of 3 predictions"):
        losses([1, 2, 3], huge, lambda *_: 0.0)
