"""Import restores what export wrote: messages, calls, results, tools and grade."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from hypothesis import HealthCheck, given, settings

from mcp_bench.recorder.cli.export import export
from mcp_bench.recorder.cli.import_ import import_
from mcp_bench.recorder.files.parquet import Parquet, cells
from mcp_bench.recorder.formats import Format
from mcp_bench.recorder.importers import Importer
from mcp_bench.recorder.importers.attempt import Attempt
from mcp_bench.recorder.runs.find import run_paths
from mcp_bench.recorder.runs.reader import RunReader
from mcp_bench.recorder.trajectory import FunctionCall, Message, ToolCall, Trajectory
from mcp_bench.servers.registry import load
from tests.support.recorded import Episode, planned, record
from tests.support.trajectories import trajectories

pytestmark = pytest.mark.contract

Invoke = Callable[..., Result]
FORMATS = ("trl", "openai", "prime-rl", "verifiers", "atif", "sharegpt")


def back(form: str, path: Path) -> Attempt:
    importer: Importer = load("importer", form)()
    (row,) = importer.rows(path)
    (attempt,) = row.attempts()
    return attempt


def check(attempt: Attempt, was: Trajectory) -> None:
    assert attempt.messages == was.messages
    assert attempt.tools == was.tools
    for fact in (
        "benchmark",
        "task",
        "split",
        "domain",
        "agent",
        "model",
        "seed",
        "partial",
        "strict",
        "usage",
        "id",
    ):
        assert getattr(attempt, fact) == getattr(was, fact), fact


@pytest.mark.parametrize("form", FORMATS)
@given(was=trajectories())
@settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_json_lines(tmp_path: Path, form: str, was: Trajectory) -> None:
    format_: Format = load("format", form)()
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(format_.row(was), ensure_ascii=False) + "\n", encoding="utf-8")
    check(back(form, path), was)


@pytest.mark.parametrize("form", FORMATS)
@given(was=trajectories())
@settings(
    max_examples=8,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_parquet(tmp_path: Path, form: str, was: Trajectory) -> None:
    format_: Format = load("format", form)()
    path = tmp_path / "rows.parquet"
    with path.open("wb") as file:
        writer = Parquet(file, format_.columns, None)  # type: ignore[arg-type]
        writer.write(cells(format_.columns, format_.row(was)))
        writer.close()
    check(back(form, path), was)


@pytest.mark.parametrize("form", FORMATS)
def test_an_agent_that_said_nothing_comes_back(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    """Its row begins the file, so the format is detected from it."""
    silent = Episode(calls=[], transcript=[], answer="")
    record([(planned(), silent), (planned("other"), Episode())])
    assert invoke(export, "--format", form, "--out", tmp_path / "data.jsonl").exit_code == 0
    monkeypatch.setenv("MCP_BENCH_HOME", str(tmp_path / "other-home"))
    result = invoke(import_, tmp_path / "data.jsonl", "--json")
    assert (result.exit_code, json.loads(result.stdout or "{}").get("imported")) == (0, 2), result.exception
    assert rows(invoke, tmp_path / "after.jsonl")[0]["messages"] == [
        {"role": "user", "content": "Please do user_task_0."}
    ]


def test_verifiers_says_that_the_time_was_over(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record([(planned("slow"), Episode(termination="timeout")), (planned("quick"), Episode())])
    out = tmp_path / "traces.jsonl"
    assert invoke(export, "--format", "verifiers", "--out", out).exit_code == 0
    assert [json.loads(row)["is_timeout"] for row in out.read_text("utf-8").splitlines()] == [True, False]
    monkeypatch.setenv("MCP_BENCH_HOME", str(tmp_path / "other-home"))
    assert invoke(import_, out).exit_code == 0
    (run,) = run_paths()
    with RunReader(run) as reader:
        ends = {one.task: one.termination for one in reader.episodes()}
    assert ends == {"slow": "timeout", "quick": None}


@pytest.mark.parametrize("form", FORMATS)
def test_another_home_imports_an_equal_recording(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    """Parallel calls, empty arguments, a failure, a link to an image, and a result of 5 MB."""
    link = json.dumps({"type": "resource_link", "uri": "file:///plan.png", "name": "Plan"})
    calls = [
        ("look", {}, "ä" * 2_500_000),
        ("look", {"at": None, "deep": [{"a": [1, 2.5]}]}, "!no"),
        ("draw", {"text": "Grüße 🙂\n\0"}, link),
    ]
    parallel = [
        ToolCall(id=f"t{n}", function=FunctionCall(name=name, arguments=arguments))
        for n, (name, arguments, _) in enumerate(calls[:2])
    ]
    transcript = [
        Message(role="assistant", reasoning="Both.", tool_calls=parallel),
        Message(
            role="assistant",
            tool_calls=[ToolCall(id="t2", function=FunctionCall(name="draw", arguments=calls[2][1]))],
        ),
        Message(role="assistant", content="Fertig."),
    ]
    record(
        [
            (planned(), Episode(calls=calls, partial=0.75, transcript=transcript)),
            (planned("other"), Episode()),
        ]
    )
    assert invoke(export, "--format", form, "--out", tmp_path / "data.jsonl").exit_code == 0
    before = rows(invoke, tmp_path / "before.jsonl")

    monkeypatch.setenv("MCP_BENCH_HOME", str(tmp_path / "other-home"))
    result = invoke(import_, tmp_path / "data.jsonl", "--format", form, "--json")
    assert (result.exit_code, json.loads(result.stdout)["imported"]) == (0, 2), result.output
    after = rows(invoke, tmp_path / "after.jsonl")
    assert [row["messages"] for row in after] == [row["messages"] for row in before]
    assert len(before[0]["messages"][2]["content"].encode()) == 5_000_000
    for key in (
        "tools",
        "benchmark",
        "task",
        "split",
        "domain",
        "agent",
        "seed",
        "partial",
        "strict",
        "usage",
    ):
        assert [row[key] for row in after] == [row[key] for row in before], key
    assert [row["isolation"] for row in after] == ["none", "none"]
    assert [row["verified"] for row in after] == [False, False]


def rows(invoke: Invoke, out: Path) -> list[dict[str, Any]]:
    assert invoke(export, "--out", out).exit_code == 0
    return [json.loads(line) for line in out.read_text("utf-8").split("\n") if line]
