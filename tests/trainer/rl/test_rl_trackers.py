"""Figures of a run that go to services: a stand-in of trackio, and TensorBoard's own files where it is installed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mcp_bench.servers.errors import BenchError, MissingDependencyError
from mcp_bench.trainer.cli.train import train
from mcp_bench.trainer.rl.trackers import figures, trackers

pytestmark = pytest.mark.component

LINE: dict[str, Any] = {
    "step": 3, "reward": 0.5, "invalid": 1, "followed": True, "gap_solved": None, "families": {"orders": 0.25},
}  # fmt: skip
FIGURES = {"reward": 0.5, "invalid": 1.0, "followed": 1.0, "families/orders": 0.25}
STAND_IN = """
import json, pathlib
log = pathlib.Path(__file__).with_name("log.jsonl")
def _add(*words):
    with log.open("a") as file:
        file.write(json.dumps(words) + "\\n")
def init(**given):
    if (log.parent / "no-start").exists():
        raise OSError("no place")
    _add("init", given)
    return type("Run", (), {"log": lambda self, values, **more: fail(values) , "finish": lambda self: _add("finish")})()
def fail(values):
    if (log.parent / "no-network").exists():
        raise OSError("no network")
    _add("log", values)
"""
"""trackio's `init`, and the run that it returns."""


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "trackio.py").write_text(STAND_IN, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(__import__("sys").modules, "trackio", raising=False)
    return tmp_path


def logged(service: Path) -> list[list[Any]]:
    return [json.loads(line) for line in (service / "log.jsonl").read_text().splitlines()]


def test_a_service_gets_the_numbers_of_each_step(service: Path) -> None:
    assert figures(LINE) == FIGURES
    with trackers(["trackio"], service / "learned", pytest.fail) as track:
        track(LINE)
        track({"step": 3, "dev_partial": 0.75})
    begun, *lines, ended = logged(service)
    assert begun == ["init", {"project": "mcp-bench", "name": "learned"}] and ended == ["finish"]
    assert [line[1] for line in lines] == [FIGURES, {"dev_partial": 0.75}]


def test_a_service_that_fails_later_does_not_end_a_run(service: Path) -> None:
    warned: list[str] = []
    with trackers(["trackio"], service / "learned", warned.append) as track:
        track(LINE)
        (service / "no-network").touch()
        track(LINE)
        track(LINE)
    assert warned == ["--report-to trackio gets no more figures: no network"]
    assert [line[0] for line in logged(service)] == ["init", "log"]


def test_a_service_that_cannot_be_used_ends_a_run_at_its_start(service: Path) -> None:
    (service / "no-start").touch()
    with (
        pytest.raises(BenchError, match="--report-to trackio: no place"),
        trackers(["trackio"], service, print),
    ):
        pass
    asked = [
        "rl",
        "tiny-cpu-grpo",
        "--start",
        str(service),
        "--out",
        str(service / "run"),
        "--report-to",
        "wandb",
    ]
    with pytest.raises(MissingDependencyError, match="pip install wandb"):
        CliRunner().invoke(train, asked, catch_exceptions=False)
    assert not (service / "run").exists()


def test_tensorboard_writes_its_files(tmp_path: Path) -> None:
    events: Any = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    with trackers(["tensorboard"], tmp_path, pytest.fail) as track:
        track(LINE)
        track({**LINE, "step": 4, "reward": 0.75})
    found = events.EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [(one.step, one.value) for one in found.Scalars("reward")] == [(3, 0.5), (4, 0.75)]
    assert "families/orders" in found.Tags()["scalars"]


def test_tensorboard_forgets_steps_that_are_made_again(tmp_path: Path) -> None:
    events: Any = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    for steps in ((1, 2, 3), (3, 4)):
        with trackers(["tensorboard"], tmp_path, pytest.fail) as track:
            for step in steps:
                track({**LINE, "step": step, "reward": step / 2})
        (tmp_path / "checkpoints" / "step-2").mkdir(parents=True, exist_ok=True)
    found = events.EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [one.step for one in found.Scalars("reward")] == [1, 2, 3, 4]
