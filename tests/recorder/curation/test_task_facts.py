"""What a benchmark says about a task besides its prompt: instructions, and whether one may train on it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from mcp_bench.recorder.cli.export import export
from mcp_bench.recorder.cli.merge import merge
from mcp_bench.recorder.cli.show import show
from mcp_bench.recorder.conversations.align import align
from mcp_bench.recorder.conversations.load import trajectory
from mcp_bench.recorder.runs.reader import RunReader
from mcp_bench.recorder.runs.run_folder import RunFolder
from mcp_bench.recorder.trajectory import Message
from mcp_bench.servers.registry import load, registered
from tests.support.recorded import Episode, begin, planned, record, run_info

pytestmark = pytest.mark.component

Invoke = Callable[..., Result]
POLICY = "Transfer at most 100 a day, and ask before each transfer."
FORBIDDEN = "not for training (the benchmark forbids it)"


def rows_of(out: Path) -> list[str]:
    return [json.loads(line)["task"] for line in out.read_text().splitlines()]


def test_a_plan_of_an_earlier_version_can_be_read(bench_home: Path) -> None:
    slot = planned().model_dump(exclude={"system", "trainable"})
    assert type(planned()).model_validate(slot) == planned()


@pytest.mark.parametrize("option", [[], ["--split", "all", "--min-partial", "0"], ["--include-tainted"]])
def test_forbidden_tasks_are_left_out_and_counted(
    bench_home: Path, invoke: Invoke, tmp_path: Path, option: list[str]
) -> None:
    stories = [(planned("a"), Episode()), *((planned(task, trainable=False), Episode()) for task in "bc")]
    record(stories)
    out = tmp_path / "rows.jsonl"
    result = invoke(export, *option, "--out", out)
    assert f"-2 {FORBIDDEN}" in result.stderr
    manifest = json.loads((tmp_path / "rows.jsonl.manifest.json").read_text())
    assert (rows_of(out), manifest["funnel"]["dropped"]["not_for_training"]) == (["a"], 2)


def test_without_such_tasks_the_funnel_is_silent(bench_home: Path, invoke: Invoke, tmp_path: Path) -> None:
    record([(planned("a"), Episode())])
    result = invoke(export, "--out", tmp_path / "rows.jsonl")
    assert FORBIDDEN not in result.stderr
    assert "not_for_training" not in (tmp_path / "rows.jsonl.manifest.json").read_text()


@pytest.mark.parametrize("kind", ["--pairs", "--steps"])
def test_other_kinds_of_rows_leave_them_out(
    bench_home: Path, invoke: Invoke, tmp_path: Path, kind: str
) -> None:
    record([(planned("b", repeat=n, trainable=False), Episode(partial=p)) for n, p in enumerate((1.0, 0.2))])
    result = invoke(export, kind, "--min-partial", "0", "--out", tmp_path / "rows.jsonl")
    assert f"of 2 episodes, 2 {FORBIDDEN}" in str(result.exception)


def test_logs_to_look_at_have_them(bench_home: Path, invoke: Invoke, tmp_path: Path) -> None:
    record([(planned("b", trainable=False), Episode())])
    result = invoke(export, "--format", "inspect", "--out", tmp_path / "log.eval")
    assert "wrote 1 of 1 episodes" in result.stdout


def test_the_conversation_begins_with_the_instructions(bench_home: Path, invoke: Invoke) -> None:
    folder, (episode, other) = record([(planned("a", system=POLICY), Episode()), (planned("b"), Episode())])
    with RunReader(folder.path) as reader:
        first, second, *_ = trajectory(reader, reader.episode(episode)).messages
        assert (first.role, first.content) == ("system", POLICY)
        assert (second.role, second.content) == ("user", "Please do a.")
        assert trajectory(reader, reader.episode(other)).messages[0].role == "user"
    shown = invoke(show, episode).output
    assert f" 0  system\n    {POLICY}\n" in shown


def test_an_unfinished_episode_has_them_too(bench_home: Path) -> None:
    with RunFolder.create(run_info(planned(system=POLICY))) as folder:
        episode = begin(folder, folder.info.plan[0])
        with RunReader(folder.path) as reader:
            messages = trajectory(reader, reader.episode(episode)).messages
    assert [message.role for message in messages] == ["system", "user"]


@pytest.mark.parametrize("said", ["Go.", f"{POLICY}\n\nGo."])
def test_the_task_is_not_repeated(said: str) -> None:
    """An agent without system messages gets the instructions and the prompt in one message."""
    transcript = [Message(role="user", content=said), Message(role="assistant", content="Done.")]
    aligned = align("Go.", transcript, [], system=POLICY)
    assert [message.content for message in aligned] == [POLICY, "Go.", "Done."]


@pytest.mark.parametrize("name", registered("format"))
def test_every_format_carries_the_instructions(bench_home: Path, name: str) -> None:
    folder, (episode,) = record([(planned(system=POLICY), Episode())])
    with RunReader(folder.path) as reader:
        row = load("format", name)().row(trajectory(reader, reader.episode(episode)))
    assert POLICY in json.dumps(row)


def test_values_in_the_instructions_were_seen(bench_home: Path, invoke: Invoke) -> None:
    account = "DE89370400440532013000"
    call = ("transfer", {"to": account}, "done")
    slots = [planned("a", system=f"Pay into {account}."), planned("b")]
    _, (told, guessed) = record([(slot, Episode(calls=(call,))) for slot in slots], agent="codex")
    found = [json.loads(invoke(show, one, "--json").stdout)["unseen_values"] for one in (told, guessed)]
    assert [len(values) for values in found] == [0, 1]


def test_merge_keeps_what_was_said(bench_home: Path, invoke: Invoke, tmp_path: Path) -> None:
    record([(planned(system=POLICY, trainable=False), Episode(rewards={1: 0.5}))])
    result = invoke(merge, "--out", tmp_path / "all.db", "--json")
    assert json.loads(result.stdout)["rows"]["rewards"] == 1
