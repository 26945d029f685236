"""Preference pairs: which attempts are paired, and the content of a row."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from mcp_bench.recorder.cli.export import export
from mcp_bench.recorder.errors import NothingToExportError
from mcp_bench.recorder.runs.run_folder import RunFolder
from mcp_bench.recorder.trajectory import FunctionSchema, Message, ToolSchema
from mcp_bench.servers.errors import WrongUseError
from tests.support.recorded import TOOL, Episode, planned, play, record, run_info

pytestmark = pytest.mark.component

Invoke = Callable[..., Result]


def said(text: str, partial: float) -> Episode:
    return Episode(partial=partial, transcript=[Message(role="assistant", content=text)])


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def attempts(task: str, *partials: float) -> list[Any]:
    return [
        (planned(task, repeat=number), said(f"{task} {partial}", partial))
        for number, partial in enumerate(partials)
    ]


def test_the_best_attempt_is_paired_with_the_worst(invoke: Invoke, tmp_path: Path) -> None:
    stories = [
        *attempts("a", 0.5, 0.9, 0.2, 0.7),
        *attempts("same", 0.8, 0.8),
        *attempts("bad", 0.4, 0.1),
        *attempts("single", 1.0),
        *attempts("close", 0.9, 0.7),
    ]
    _, ids = record(stories, model="m")
    done = invoke(export, "--pairs", "--margin", "0.3", "--out", tmp_path / "p.jsonl", "--json")
    assert done.exit_code == 0, done.exception
    (row,) = rows(tmp_path / "p.jsonl")
    assert row["prompt"] == [{"role": "user", "content": "Please do a."}]
    assert [row[side][-1]["content"] for side in ("chosen", "rejected")] == ["a 0.9", "a 0.2"]
    assert row["chosen"][0]["tool_calls"][0]["function"]["arguments"] == {"amount": 12.5}
    assert [tool["function"]["name"] for tool in row["tools"]] == ["transfer"]
    assert (row["task"], row["split"], row["margin"]) == ("a", "train", 0.7)
    assert (row["chosen_episode"]["id"], row["rejected_episode"]["id"]) == (ids[1], ids[2])
    manifest = json.loads(done.stdout)
    assert manifest["episodes"] == [ids[1], ids[2]]
    assert manifest["pairs"]["tasks"] == {
        "pairs": 1, "no_good_attempt": 1, "no_margin": 3, "unlike_prompts": 0, "unlike_tools": 0, "silent": 0,
    }  # fmt: skip
    written = invoke(export, "--pairs", "--margin", "0.3", "--out", tmp_path / "q.jsonl")
    assert written.stdout.startswith("wrote 1 row from 2 of 11 episodes to ")
    assert manifest["rows"] == 1


def test_the_lines_count_what_was_written(invoke: Invoke, tmp_path: Path) -> None:
    """Of the six episodes that were chosen, two are in the only row."""
    record([*attempts("a", 0.9, 0.5, 0.2), *attempts("same", 0.8, 0.8), *attempts("single", 1.0)])
    out = tmp_path / "p.jsonl"
    done = invoke(export, "--pairs", "--out", out)
    assert done.stdout == f"wrote 1 row from 2 of 6 episodes to {out} (pairs)\n"
    assert done.stderr.splitlines()[-1].split() == ["6", "chosen"]


def test_equal_grades_are_never_a_pair(invoke: Invoke, tmp_path: Path) -> None:
    record([*attempts("same", 0.8, 0.8), *attempts("close", 0.91, 0.9)])
    assert invoke(export, "--pairs", "--out", tmp_path / "p.jsonl").exit_code == 0
    assert [row["task"] for row in rows(tmp_path / "p.jsonl")] == ["close"]


def test_it_says_why_there_is_no_pair(invoke: Invoke, tmp_path: Path) -> None:
    record([*attempts("a", 1.0), *attempts("b", 1.0, 1.0), *attempts("c", 0.2, 0.1)])
    error = invoke(export, "--pairs", "--out", tmp_path / "p.jsonl").exception
    assert isinstance(error, NothingToExportError)
    assert str(error) == (
        "nothing to export: 5 episodes have no pairs: of their tasks, 1 without an attempt of 0.5 or more, "
        "2 whose attempts differ by less than 0.01"
    )


def test_attempts_that_cannot_be_compared_are_left_out(invoke: Invoke, tmp_path: Path) -> None:
    (better, story), (worse, other) = attempts("a", 1.0, 0.0)
    record([(better, story), (worse.model_copy(update={"prompt": "Another prompt."}), other)])
    silent = Episode(partial=0.0, calls=(), transcript=[])
    record([(planned("b"), story), (planned("b", repeat=1), silent)])
    done = invoke(export, "--pairs", "--out", tmp_path / "p.jsonl")
    assert isinstance(done.exception, NothingToExportError)
    assert "had different prompts, 1 with an attempt that did nothing" in str(done.exception)
    assert not (tmp_path / "p.jsonl").exists()


def test_placeholders_are_the_same_on_both_sides(invoke: Invoke, tmp_path: Path) -> None:
    stories = [
        (planned("a", repeat=number), said(f"I wrote to {name}@corp.example.", partial))
        for number, (name, partial) in enumerate((("ann", 1.0), ("bob", 0.0)))
    ]
    record(stories)
    assert invoke(export, "--pairs", "--redact", "emails", "--out", tmp_path / "p.jsonl").exit_code == 0
    (row,) = rows(tmp_path / "p.jsonl")
    assert [row[side][-1]["content"] for side in ("chosen", "rejected")] == [
        "I wrote to [EMAIL_1].",
        "I wrote to [EMAIL_2].",
    ]


def test_attempts_with_other_tools_are_no_pair(invoke: Invoke, tmp_path: Path) -> None:
    """A row has one list of tools. Their order does not count."""
    pay = ToolSchema(function=FunctionSchema(name="pay", description="Pay.", parameters={"type": "object"}))
    offered = {"a": ([TOOL], [pay]), "b": ([TOOL, pay], [pay, TOOL])}
    for task, tools in offered.items():
        for (slot, story), listed in zip(attempts(task, 1.0, 0.0), tools, strict=True):
            with RunFolder.create(run_info(slot)) as folder:
                play(folder, slot, story, tools=listed)
    done = invoke(export, "--pairs", "--out", tmp_path / "p.jsonl", "--json")
    assert [row["task"] for row in rows(tmp_path / "p.jsonl")] == ["b"]
    counts = json.loads(done.stdout)["pairs"]["tasks"]
    assert (counts["pairs"], counts["unlike_tools"]) == (1, 1)


def test_parquet_holds_the_same_pairs(invoke: Invoke, tmp_path: Path) -> None:
    from mcp_bench.recorder.files.parquet import read_rows

    record([*attempts("a", 1.0, 0.0), *attempts("b", 0.9, 0.1)])
    for name in ("p.jsonl", "p.parquet"):
        assert invoke(export, "--pairs", "--out", tmp_path / name).exit_code == 0
    assert [load() for load in read_rows(tmp_path / "p.parquet", json.loads)] == rows(tmp_path / "p.jsonl")


def test_invalid_options_are_refused(invoke: Invoke, tmp_path: Path) -> None:
    record(attempts("a", 1.0, 0.0))
    for options in (
        ["--pairs", "--steps"],
        ["--pairs", "--format", "openai"],
        ["--pairs", "--strict"],
        ["--margin", "0.2"],
        ["--pairs", "--shard-size", "5"],
    ):
        done = invoke(export, *options, "--out", tmp_path / "p.jsonl")
        assert isinstance(done.exception, WrongUseError), options
    for rows_of in (["--pairs"], ["--step-weight", "error=0"]):
        done = invoke(export, *rows_of, "--shard-size", "5", "--out", tmp_path / "p.jsonl")
        words = "--shard-size cannot be used with --pairs, --steps or --step-weight"
        assert words in str(done.exception), rows_of
