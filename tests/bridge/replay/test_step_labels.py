"""Step labels: the effect of each call, found by a replay."""

import json
import os
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import pytest
from click.testing import CliRunner

from mcp_bench.bridge.experience.tools import Experience
from mcp_bench.bridge.replay.one_episode import replay_of
from mcp_bench.bridge.viewer.recordings import Library
from mcp_bench.recorder.cli.export import export
from mcp_bench.recorder.export.steps import step
from mcp_bench.recorder.records import EpisodeEnd, now_us
from mcp_bench.recorder.runs.run_folder import RunFolder
from mcp_bench.servers.errors import BenchError
from mcp_bench.servers.grading import AssertionResult
from mcp_bench.servers.registry import load
from mcp_bench.servers.remote import RemoteBenchmark
from tests.support.processes.forked import run_module
from tests.support.recorded import Episode, begin, planned, record, request, response, run_info

pytestmark = pytest.mark.component

Standing = Callable[..., list[AssertionResult]]


def standing(objectives: str, guardrails: str = "") -> list[AssertionResult]:
    """Return assertions; those written as `+` pass."""
    kinds = [("objective", mark) for mark in objectives] + [("guardrail", mark) for mark in guardrails]
    return [
        AssertionResult(name=f"a{number}", passed=mark == "+", kind=kind)  # type: ignore[arg-type]
        for number, (kind, mark) in enumerate(kinds)
    ]


@pytest.mark.parametrize(
    ("before", "after", "is_error", "label"),
    [
        (standing("--"), standing("+-"), False, "progress"),
        (standing("+-"), standing("+-"), False, "neutral"),
        (standing("+-"), standing("--"), False, "setback"),
        (standing("+-"), standing("-+"), False, "progress"),
        (standing("--", "+"), standing("+-", "-"), False, "broke_guardrail"),
        (standing("--", "-"), standing("--", "+"), False, "neutral"),
        (standing("--"), standing("--"), True, "error"),
    ],
)
def test_labels(before: Any, after: Any, is_error: bool, label: str) -> None:
    found = step(before, after, is_error=is_error)
    assert found.label == label
    assert found.objectives == 2
    assert found.met == sum(one.passed for one in after if one.kind == "objective")


def exported(out: Path, *options: str) -> Any:
    return CliRunner().invoke(export, ["--steps", *options, "--out", str(out)])


def test_each_call_of_real_attempts_has_a_label(tmp_path: Path) -> None:
    argv = ["record", "--agent", "oracle", "--limit", "3", "--isolation", "none"]
    for drop in ("0", "0.5"):
        chosen = [*argv, "--agent-option", f"drop={drop}"]
        run_module("mcp_bench.bridge.cli.root", chosen, env=os.environ, cwd=tmp_path).check_returncode()
    done = exported(tmp_path / "s.jsonl")
    assert done.exit_code == 0, done.exception
    rows = [json.loads(line) for line in (tmp_path / "s.jsonl").read_text().splitlines()]
    episodes: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        episodes.setdefault(row["id"], []).append(row)
    for steps in episodes.values():
        last = steps[-1]
        assert [row["step"] for row in steps] == list(range(1, len(steps) + 1))
        assert (last["met"] == last["objectives"] and not last["broken"]) == last["strict"]
        assert any(row["label"] == "progress" for row in steps) == (last["met"] > 0)
        for row, following in pairwise(steps):
            assert following["prompt"][: len(row["prompt"])] == row["prompt"]
            assert following["prompt"][len(row["prompt"])]["tool_calls"] == row["completion"][0]["tool_calls"]
    assert any(steps[-1]["strict"] for steps in episodes.values())
    manifest = json.loads((tmp_path / "s.jsonl.manifest.json").read_text())
    assert sum(manifest["steps"]["labels"].values()) == len(rows) == manifest["rows"]


def test_refused_calls_are_errors_and_changed_results_get_no_label(tmp_path: Path) -> None:
    task = next(load("benchmark", "saasworld").tasks("train", 1))
    saas = {"benchmark": "saasworld", "benchmark_version": load("benchmark", "saasworld").version}
    refused = Episode(calls=[("no_such_tool", {}, "!There is no tool 'no_such_tool'.")])
    slot = planned(task.id).model_copy(update={"prompt": task.prompt})
    record([(slot, refused)], **saas)
    done = exported(tmp_path / "s.jsonl", "--agent", "oracle", "--json")
    # the replay's refusal has other words than the recording: no labels
    assert isinstance(done.exception, BenchError)
    assert "the replays of 1 differ from their recordings" in str(done.exception)


def test_turns_are_weighted_by_the_effects_of_their_calls(tmp_path: Path) -> None:
    """The oracle's slips are refused calls; each is followed by the right one."""
    argv = ["record", "--agent", "oracle", "--limit", "2", "--isolation", "none"]
    chosen = [*argv, "--agent-option", "slips=0.9"]
    run_module("mcp_bench.bridge.cli.root", chosen, env=os.environ, cwd=tmp_path).check_returncode()
    weights = [
        "--step-weight",
        "error=0",
        "--step-weight",
        "repeated_error=0",
        "--step-weight",
        "neutral=0.5",
    ]
    done = CliRunner().invoke(export, [*weights, "--out", str(tmp_path / "w.jsonl")])
    assert done.exit_code == 0, done.exception
    rows = [json.loads(line) for line in (tmp_path / "w.jsonl").read_text().splitlines()]
    failed = {}
    for row in rows:
        results = {one["tool_call_id"]: one for one in row["messages"] if one["role"] == "tool"}
        for turn in row["messages"]:
            if turn.get("tool_calls"):
                (call,) = turn["tool_calls"]
                failed.setdefault(turn["weight"], set()).add(results[call["id"]].get("is_error", False))
            else:
                assert "weight" not in turn
    assert failed == {0.0: {True}, 0.5: {False}, 1.0: {False}}
    manifest = json.loads((tmp_path / "w.jsonl.manifest.json").read_text())
    assert manifest["step_weights"]["episodes_that_replay_otherwise"] == 0
    assert set(manifest["step_weights"]["turns"]) == {"0", "0.5", "1"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--step-weight", "eror=0"], "did you mean error"),
        (["--step-weight", "error=2"], "must be between 0 and 1"),
        (["--step-weight", "error"], "write LABEL=WEIGHT"),
        (["--step-weight", "error=0", "--steps"], "rows of episodes in format trl"),
    ],
)
def test_wrong_weights_are_refused(tmp_path: Path, options: list[str], words: str) -> None:
    done = CliRunner().invoke(export, [*options, "--out", str(tmp_path / "w.jsonl")])
    assert words in str(done.exception)


def test_an_episode_that_goes_on_is_replayed_again() -> None:
    """The viewer shows what each call did while an agent works, and after it."""
    saasworld = load("benchmark", "saasworld")
    task = next(saasworld.tasks("train", 1))
    slot = planned(task.id).model_copy(update={"prompt": task.prompt, "seed": 0})
    info = run_info(slot, benchmark="saasworld", benchmark_version=saasworld.version)
    with RunFolder.create(info) as folder:
        episode = begin(folder, slot)
        for rpc_id, call in enumerate(saasworld.reference(task.id).calls[:2], start=1):
            folder.recording.store_frame(episode, 1, "client", request(rpc_id, call.name, call.arguments))
            folder.recording.mark_executed(episode, 1, rpc_id)
            folder.recording.store_frame(episode, 1, "server", response(rpc_id, ""))
            assert len(replay_of(folder.path, episode).steps) == rpc_id
        folder.recording.end_episode(episode, EpisodeEnd(termination="agent_exit", ended_us=now_us()), [])
        assert len(replay_of(folder.path, episode).steps) == 2


def test_a_benchmark_without_assertions_now_is_refused(tmp_path: Path) -> None:
    record([(planned("banking/user_task_0"), Episode())])
    done = exported(tmp_path / "s.jsonl")
    assert isinstance(done.exception, BenchError)
    assert "agentdojo cannot evaluate its assertions" in str(done.exception)
    assert not (tmp_path / "s.jsonl").exists()
    # `done` holds the error, which keeps everything that it passed through alive
    assert not open_files() & {"recordings.db", "grades.db"}


def test_a_world_that_cannot_be_replayed_is_refused_before_it_opens(tmp_path: Path) -> None:
    """`regrade` grades its stored state; what each call did is in no state."""
    improve = {"benchmark": "improve", "benchmark_version": load("benchmark", "improve").version}
    _, [episode] = record([(planned("places.train.0"), Episode())], **improve)
    done = exported(tmp_path / "s.jsonl")
    assert isinstance(done.exception, BenchError)
    assert "a world of improve cannot be replayed" in str(done.exception)
    experience = Experience(Library())
    said = anyio.run(experience.call, "episode", {"id": episode, "effects": True})
    assert not said.is_error
    assert "The effects of calls are unknown: a world of improve cannot be replayed" in said.text


def open_files() -> set[str]:
    names = set()
    for link in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # that of the listing itself
            names.add(link.readlink().name)
    return names


def test_a_worker_passes_on_assertions_now() -> None:
    local = load("benchmark", "saasworld")
    remote = RemoteBenchmark("saasworld", "mcp_bench.servers.saasworld:BENCHMARK", version=local.version)
    task = next(local.tasks("train", 1)).id

    async def both() -> tuple[Any, Any]:
        try:
            worlds = [await benchmark.open(task) for benchmark in (local, remote)]
            for call in local.reference(task).calls:
                for world in worlds:
                    await world.call(call.name, dict(call.arguments))
            return tuple([list(await world.assertions_now()) for world in worlds])  # type: ignore[return-value]
        finally:
            await remote.aclose()

    here, there = anyio.run(both)
    assert here == there
    assert all(one.passed for one in here)
