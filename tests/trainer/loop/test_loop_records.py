"""Recordings of steps: found again after a kill, and stored only if they say something."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mcp_bench.recorder.paths import runs_dir
from mcp_bench.recorder.runs.annotations import annotate
from mcp_bench.servers.errors import BenchError
from mcp_bench.trainer.loop import steps
from mcp_bench.trainer.loop.folder import LoopFolder
from mcp_bench.trainer.loop.settings import LoopSettings
from mcp_bench.trainer.loop.steps import Steps
from mcp_bench.trainer.trial import measuring
from mcp_bench.trainer.trial.recordings import record
from tests.support import recorded
from tests.support.recorded import Episode, planned

pytestmark = pytest.mark.component

ASKED = ("--agent", "oracle", "--task", "user_task_0")


class Command:
    """Stands in for `mcp-bench record`: it records one episode, or returns the run that it resumes."""

    def __init__(self, stored_agent: str | None = None, story: Episode = Episode()) -> None:  # noqa: B008
        self.resumed: list[str] = []
        self.asked: Sequence[str] = ()
        self._stored_agent, self._story = stored_agent, story

    def __call__(self, arguments: Sequence[str], **_: object) -> dict[str, Any]:
        self.asked = arguments
        if "--resume" in arguments:
            self.resumed.append(arguments[arguments.index("--resume") + 1])
            return {"run": self.resumed[-1], "stopped": False}
        options = dict(pairwise(arguments))
        made = recorded.record(
            [(planned(), self._story)],
            agent=self._stored_agent or options["--agent"],
            model=options.get("--model"),
        )[0]
        annotate(runs_dir() / made.id, add=[tag for flag, tag in pairwise(arguments) if flag == "--run-tag"])
        return {"run": made.id, "stopped": False}


def test_a_run_is_found_again_until_its_result_is_stored(tmp_path: Path) -> None:
    command = Command()
    first = record(tmp_path / "dev.begun", ASKED, run_command=command)
    assert record(tmp_path / "dev.begun", ASKED, run_command=command) == first
    assert command.resumed == [first]


def test_an_endpoint_with_a_login_is_named_again(tmp_path: Path) -> None:
    """Its login is not stored with the run."""
    command, url = Command(), "http://me:secret@127.0.0.1:1/v1"
    for _ in range(2):
        record(tmp_path / "dev.begun", (*ASKED, "--base-url", url), run_command=command)
    assert command.resumed and command.asked[-3:] == ["--base-url", url, "--json"]


@pytest.mark.parametrize(("stored", "is_ours"), [("acp:mine", True), ("acpx:mine", False), ("codex", False)])
def test_an_agent_of_ones_own_is_stored_with_its_name(stored: str, is_ours: bool, tmp_path: Path) -> None:
    command = Command(stored)
    asked = ("--agent", "acp", "--agent-option", "command=mine", "--task", "user_task_0")
    first = record(tmp_path / "dev.begun", asked, run_command=command)
    assert (record(tmp_path / "dev.begun", asked, run_command=command) == first) is is_ours


def test_a_run_without_tasks_that_cannot_run_here_is_found_again(tmp_path: Path) -> None:
    command = Command()
    asked = (*ASKED, "--task", "user_task_1")
    first = record(tmp_path / "dev.begun", asked, run_command=command)
    assert record(tmp_path / "dev.begun", asked, run_command=command) == first
    assert (
        record(tmp_path / "dev.begun", ("--agent", "oracle", "--task", "user_task_1"), run_command=command)
        != first
    )


@pytest.mark.parametrize("tagged", [(), ("--run-tag", "mine")])
def test_two_steps_that_record_the_same_find_their_own_runs(tmp_path: Path, tagged: Sequence[str]) -> None:
    """Such as two loops with one teacher: neither takes the other's run, nor records again."""
    command, asked = Command(), (*ASKED, *tagged)
    runs = [record(tmp_path / f"{name}.begun", asked, run_command=command) for name in "ab"]
    (tmp_path / "c.begun").write_text((tmp_path / "a.begun").read_text())  # as it was before both
    assert [record(tmp_path / f"{name}.begun", asked, run_command=command) for name in "abc"] == [
        *runs,
        runs[0],
    ]
    assert len({*runs}) == 2


def test_an_unreadable_run_of_others_is_not_ours(tmp_path: Path) -> None:
    command = Command()
    ours = record(tmp_path / "dev.begun", ASKED, run_command=command)
    (runs_dir() / "run_killed").mkdir()  # before it had a database
    assert record(tmp_path / "dev.begun", ASKED, run_command=command) == ours


def test_a_list_of_runs_that_is_incomplete_is_written_again(tmp_path: Path) -> None:
    command = Command()
    others = command(["record", *ASKED])["run"]
    (tmp_path / "dev.begun").write_text('{"before": [')
    ours = record(tmp_path / "dev.begun", ASKED, run_command=command)
    assert ours != others
    assert record(tmp_path / "dev.begun", ASKED, run_command=command) == ours


def measuring_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command, check: Callable[[], None]
) -> Steps:
    """Return the steps of a loop whose models need no engine."""

    @contextmanager
    def serve(*_: object, **__: object) -> Iterator[SimpleNamespace]:
        yield SimpleNamespace(base_url="http://127.0.0.1:1/v1", key="k", check=check)

    monkeypatch.setattr(measuring, "serve", serve)
    monkeypatch.setattr(measuring, "claim_port", lambda host, port: port)
    monkeypatch.setattr(steps, "record", partial(record, run_command=command))
    settings = LoopSettings(
        recipe="tiny-cpu", benchmark="agentdojo", turns=1, train=["t"], dev=["user_task_0"], test=[],
        teacher="oracle",
    )  # fmt: skip
    return Steps(LoopFolder(tmp_path / "loop"), settings)


def test_invalid_episodes_of_the_start_are_attempted_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each later turn is compared with them. Those of a later model count as its verdict."""
    command = Command(story=Episode(partial=None, invalid="world_failed"))
    loop = measuring_steps(tmp_path, monkeypatch, command, lambda: None)
    with pytest.raises(BenchError, match="1 of 1 episodes of the model at the start are invalid"):
        loop.measure(0, tmp_path / "model")
    assert len(command.resumed) == 1
    assert loop.folder.done(0, "measure-dev") is None
    assert loop.measure(1, tmp_path / "model")["dev"]["invalid"] == 1


def test_a_teacher_that_never_worked_is_recorded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its step would end each resumed loop: nothing can be exported."""
    command = Command(story=Episode(partial=None, invalid="endpoint_error"))
    loop = measuring_steps(tmp_path, monkeypatch, command, lambda: None)
    loop.settings = replace(loop.settings, train=["user_task_0"])
    for _ in range(2):
        with pytest.raises(BenchError, match="all 1 episodes of the teacher are invalid"):
            loop.folder.step(1, "teach", lambda: loop.teach(1))
    assert len(command.resumed) == 1
    assert loop.folder.done(1, "teach") is None


def test_a_measurement_by_a_dead_engine_is_not_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run goes on once the loop is resumed: its episodes are invalid."""
    dead = True

    def check() -> None:
        if dead:
            raise BenchError("the engine has ended")

    command = Command()
    loop = measuring_steps(tmp_path, monkeypatch, command, check)
    with pytest.raises(BenchError, match="the engine has ended"):
        loop.measure(0, tmp_path / "model")
    assert loop.folder.done(0, "measure-dev") is None
    dead = False
    found = loop.measure(0, tmp_path / "model")
    assert command.resumed == [found["dev"]["run"]]
    assert loop.folder.done(0, "measure-dev") == found["dev"]
