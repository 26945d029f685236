"""Samples that a home keeps for other attempts: what of them is read again."""

from dataclasses import replace
from pathlib import Path

import pytest

from mcp_bench.servers.improve.kept import MOST, Kept
from mcp_bench.servers.improve.task_file import ImproveTask, read_task
from mcp_bench.servers.sandbox import Enforced
from tests.support.improvement.kinds import write_kind
from tests.support.improvement.small_task import write_task

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCP_BENCH_HOME", str(tmp_path / "home"))


def kept(task: ImproveTask) -> Kept:
    """Return what an attempt keeps: attempts on the same variant have equal ones."""
    enforced = Enforced(
        engine="x", version="1", user="x", network="none", memory="cgroup", cpus="cgroup", base="x"
    )
    return Kept(task, "small.train.0", 0, enforced)


def test_samples_of_another_model_are_not_read(tmp_path: Path) -> None:
    task = read_task(write_kind(tmp_path, "text"))
    kept(task).add(task.baseline, {"candidate": [1.0]})
    assert kept(task).read(task.baseline) == {"candidate": [1.0]}
    other = replace(task, model=f"{task.model}#")
    assert kept(other).read(task.baseline) == {}


def test_samples_without_a_clock_are_one_measurement(tmp_path: Path) -> None:
    """The items are the same each time, and they are all needed."""
    task = read_task(write_kind(tmp_path, "fit_predict"))
    samples = {name: [float(item) for item in range(2 * MOST)] for name in ("baseline", "candidate")}
    for _ in range(2):  # two attempts measured at the same time
        kept(task).add(task.baseline, samples)
    assert kept(task).read(task.baseline) == samples


def test_a_measurement_that_was_cut_off_is_not_read(tmp_path: Path) -> None:
    task = read_task(write_kind(tmp_path, "fit_predict"))
    kept(task).add(task.baseline, {"candidate": [1.0, 2.0]})
    [place] = (tmp_path / "home").rglob("*.jsonl")
    with place.open("a") as file:
        file.write('\n{"candidate": [1.0,')
    assert kept(task).read(task.baseline) == {"candidate": [1.0, 2.0]}


def test_samples_of_clocks_are_pooled(tmp_path: Path) -> None:
    task = read_task(write_task(tmp_path))
    for first in (0.0, 1.0):
        kept(task).add(task.baseline, {"candidate": [first] * (MOST - 1)})
    assert kept(task).read(task.baseline) == {"candidate": [0.0] + [1.0] * (MOST - 1)}
