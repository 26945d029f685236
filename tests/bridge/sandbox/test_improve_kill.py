"""`kill -9` of the referee in the middle of an experiment: nothing is lost, and no process of a sandbox is left."""

from __future__ import annotations

import os
import select
from contextlib import suppress
from pathlib import Path

import pytest

from mcp_bench.bridge.process.descendants import below
from mcp_bench.bridge.sandbox.engine import engines
from mcp_bench.servers.improve.task_file import read_task
from mcp_bench.servers.improve.tried import mark
from tests.support.bench_commands import Bench
from tests.support.improvement.small_task import BASELINE, TASK, write_task
from tests.support.requirements import needs

BWRAP = engines()["bwrap"]
pytestmark = [pytest.mark.system, needs("bwrap", BWRAP.support().works, BWRAP.support().detail)]
SECONDS = 300.0
"""Limit for each step of a test, against hanging."""
SCORER = """import os
asked = 0
def question(rng, part, settings):
    global asked
    asked += 1
    if os.path.exists({moment!r}) and asked > int(open({moment!r}).read()):
        with open({fifo!r}, "wb", buffering=0) as fifo:
            fifo.write(b"x")
        return [-1]
    return [settings["size"] + rng.randrange(settings["size"])]
"""
"""From some question on, the programs get one that they work on until they are killed."""
ENDLESS = "while n < 0:\n        pass\n    "


@pytest.mark.parametrize(
    "moments",
    # the full sweep has other moments: between pairs, and in the last ones
    [pytest.param((0,)), pytest.param((1, 2, 5, 8, 13), marks=pytest.mark.full)],
)
def test_a_killed_referee_loses_nothing(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moments: tuple[int, ...]
) -> None:
    moment, fifo = tmp_path / "moment", tmp_path / "fifo"
    os.mkfifo(fifo)
    reading = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)
    folder = write_task(
        tmp_path,
        task=TASK.replace("seconds: 4", "seconds: 1000"),
        scorer=SCORER.format(moment=str(moment), fifo=str(fifo)),
        target=BASELINE.replace("total = 0", f"{ENDLESS}total = 0"),
    )
    reference = folder / "reference/target.py"
    reference.write_text(reference.read_text().replace("return", f"{ENDLESS}return"))
    monkeypatch.setenv("MCP_BENCH_HOME", str(bench.home))
    tried = mark(read_task(folder))
    tried.parent.mkdir(parents=True)
    tried.touch()  # so that the first experiment is the one that the agent asked for
    record = ("record", "--agent", "oracle", "--benchmark", "improve", "--path", folder, "--limit", "1")
    for number in moments:
        moment.write_text(str(number))
        resumed = ("record", "--resume", bench.run_folder.name) if (bench.home / "runs").is_dir() else record
        with bench.start(*resumed) as referee:
            assert select.select([reading], [], [], SECONDS)[0], "the experiment did not begin"
            started = opened(below([referee.pid]))
            assert len(started) >= 3 * 4, "three sandboxes: a supervisor, a keeper and what is inside"
            referee.kill()
        for process in started:
            assert select.select([process], [], [], SECONDS)[0], "a process is left"
            os.close(process)
        os.read(reading, 1 << 10)  # who writes to it is gone
    moment.unlink()
    before = bench.rows("select tool, arguments from calls order by id")
    assert [row["tool"] for row in before] == ["write", "submit"] * len(moments)
    bench.run("record", "--resume", bench.run_folder.name)
    os.close(reading)
    [grade] = bench.grades()
    assert grade["partial"] > 0, "the reference beats the baseline; by how much, a busy machine can blur"
    assert bench.rows("select tool, arguments from calls order by id")[: len(before)] == before


def opened(pids: list[int]) -> list[int]:
    """Return a descriptor of each process that is still there."""
    found = []
    for pid in pids:
        with suppress(ProcessLookupError):
            found.append(os.pidfd_open(pid))
    return found
