import hashlib
import json
import shlex
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from mcp_bench.recorder.cli.export import export
from mcp_bench.recorder.errors import NothingToExportError
from mcp_bench.recorder.runs.parts import resume_run
from mcp_bench.recorder.trajectory import FunctionCall, Message, ToolCall
from mcp_bench.servers.errors import BenchError, UnknownNameError, WrongUseError
from tests.support.recorded import TOOL, Episode, planned, play, record

pytestmark = pytest.mark.system

Invoke = Callable[..., Result]


@pytest.fixture
def ids() -> list[str]:
    """One run of codex with every kind of outcome, and one run of oracle."""
    stories = [
        (planned("good"), Episode(partial=1.0)),
        (planned("fair"), Episode(partial=0.6)),
        (planned("poor"), Episode(partial=0.2)),
        (planned("broken"), Episode(partial=None, invalid="endpoint_error")),
        (planned("unseen"), Episode(partial=None)),
        (planned("held_out", split="test"), Episode(partial=1.0)),
    ]
    _, codex = record(stories, agent="codex", model="gpt-x")
    _, oracle = record([(planned("good"), Episode(partial=1.0))])
    return codex + oracle


def data(path: Path) -> list[dict[str, Any]]:
    return [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines()]


def test_writes_rows_and_a_manifest_with_the_funnel(ids: list[str], invoke: Invoke, tmp_path: Path) -> None:
    out = tmp_path / "train.jsonl"
    result = invoke(export, "--min-partial", 0.5, "--out", out)
    assert result.exit_code == 0, result.output
    assert [row["task"] for row in data(out)] == ["good", "fair", "good"]
    manifest = json.loads((tmp_path / "train.jsonl.manifest.json").read_text())
    assert manifest["funnel"] == {
        "rows_in": 7,
        "dropped": {"other_split": 1, "invalid": 1, "ungraded": 1, "tainted": 0, "below_threshold": 1},
        "rows_out": 3,
    }
    assert manifest["episodes"] == [ids[0], ids[1], ids[6]]
    assert manifest["left_out"] == "train.jsonl.left-out.json"
    (left_out,) = json.loads((tmp_path / manifest["left_out"]).read_text()).values()
    assert left_out == {
        "below_threshold": [ids[2]],
        "invalid": [ids[3]],
        "ungraded": [ids[4]],
        "other_split": [ids[5]],
    }
    assert manifest["rules"]["ungraded"] == "without a grade"
    assert manifest["sha256"] == hashlib.sha256(out.read_bytes()).hexdigest()
    assert {run["agent"] for run in manifest["runs"].values()} == {"codex", "oracle"}
    assert manifest["selection"]["min_partial"] == 0.5
    assert result.stdout == f"wrote 3 of 7 episodes to {out} (trl)\n"
    assert result.stderr.splitlines() == [
        " 7 episodes",
        "-1 not of the split train (--split all takes every split)",
        "-1 invalid",
        "-1 without a grade",
        " 0 tainted (--include-tainted keeps them)",
        "-1 with a partial score below 0.5",
        " 3 rows",
    ]
    assert sorted(path.name for path in tmp_path.glob("*train*")) == [
        "train.jsonl",
        "train.jsonl.left-out.json",
        "train.jsonl.manifest.json",
    ]


def test_nothing_left_out_leaves_no_file(invoke: Invoke, tmp_path: Path) -> None:
    record([(planned("a"), Episode()), (planned("b"), Episode(partial=0.1))])
    out, beside = tmp_path / "rows.jsonl", tmp_path / "rows.jsonl.left-out.json"
    assert invoke(export, "--min-partial", 0.5, "--out", out).exit_code == 0
    assert beside.is_file()
    assert isinstance(invoke(export, "--out", out).exception, WrongUseError)
    assert invoke(export, "--min-partial", 0, "--out", out, "--force").exit_code == 0
    assert not beside.exists()
    assert json.loads((tmp_path / "rows.jsonl.manifest.json").read_text())["left_out"] is None


def test_a_row_has_no_keys_without_a_value(invoke: Invoke, tmp_path: Path) -> None:
    call = ToolCall(id="t1", function=FunctionCall(name="transfer", arguments={"amount": 12.5}))
    transcript = [
        Message(role="assistant", reasoning="I should pay.", tool_calls=[call]),
        Message(role="assistant", content="I sent the money."),
    ]
    _, (episode,) = record([(planned(), Episode(transcript=transcript))], model="m-1")
    invoke(export, "--out", tmp_path / "rows.jsonl")
    (row,) = data(tmp_path / "rows.jsonl")
    assert row["messages"] == [
        {"role": "user", "content": "Please do user_task_0."},
        {"role": "assistant", "reasoning_content": "I should pay.", "tool_calls": [call.model_dump()]},
        {"role": "tool", "content": "done", "tool_call_id": "t1", "name": "transfer"},
        {"role": "assistant", "content": "I sent the money."},
    ]
    assert row["tools"] == [TOOL.model_dump()]
    facts = {name: row[name] for name in row if name not in {"messages", "tools"}}
    assert facts == {
        "id": episode, "benchmark": "agentdojo", "task": "user_task_0", "split": "train", "domain": "banking",
        "agent": "oracle", "model": "m-1", "seed": 7, "isolation": "none", "partial": 1.0, "strict": True,
        "score": None, "verified": False, "taint": "unknown", "usage": {"input_tokens": 10, "output_tokens": 2},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("options", "tasks"),
    [
        (["--strict"], ["good", "good"]),
        (["--split", "all", "--strict"], ["good", "held_out", "good"]),
        (["--split", "test"], ["held_out"]),
        (["--agent", "oracle"], ["good"]),
        (["--min-partial", "0"], ["good", "fair", "poor", "good"]),
    ],
)
def test_options_filter_episodes(
    ids: list[str], invoke: Invoke, tmp_path: Path, options: list[str], tasks: list[str]
) -> None:
    result = invoke(export, *options, "--out", tmp_path / "o", "--json")
    assert [row["task"] for row in data(tmp_path / "o")] == tasks
    assert json.loads(result.stdout)["funnel"]["rows_out"] == len(tasks)


@pytest.mark.parametrize(
    ("options", "recorded"),
    [
        (["--min-partial", "0"], "--min-partial 0.0"),
        (["--seed", "0"], ""),
        (["--seed", "1"], "--seed 1"),
    ],
)
def test_the_recorded_command_has_zeros_that_matter(
    ids: list[str], invoke: Invoke, tmp_path: Path, options: list[str], recorded: str
) -> None:
    """It makes the same data again. What has its default is left out."""
    manifest = json.loads(invoke(export, *options, "--out", tmp_path / "o", "--json").stdout)
    assert manifest["command"] == " ".join(["mcp-bench export", *recorded.split(), "--out o"])
    again = shlex.split(manifest["command"])[2:-1]
    assert invoke(export, *again, tmp_path / "again").exit_code == 0
    assert (tmp_path / "again").read_bytes() == (tmp_path / "o").read_bytes()


def test_only_the_last_attempt_counts(invoke: Invoke, tmp_path: Path) -> None:
    folder, _ = record([(planned(), Episode(partial=None))])
    with resume_run(folder.id) as resumed:
        second = play(resumed, planned(), Episode(partial=0.9), attempt=2)
    manifest = json.loads(invoke(export, "--out", tmp_path / "o", "--json").stdout)
    assert (manifest["episodes"], manifest["funnel"]["rows_in"]) == ([second], 1)


def test_an_empty_result_reports_what_each_rule_dropped(
    ids: list[str], invoke: Invoke, tmp_path: Path
) -> None:
    result = invoke(
        export, "--agent", "codex", "--split", "test", "--min-partial", 1, "--out", tmp_path / "o"
    )
    assert result.exit_code == 0
    (tmp_path / "o").unlink()
    for name in ("manifest", "left-out"):
        (tmp_path / f"o.{name}.json").unlink()
    record([(planned("x", split="dev"), Episode(partial=0.3))], agent="late")
    result = invoke(export, "--agent", "late", "--split", "dev", "--out", tmp_path / "o")
    assert isinstance(result.exception, NothingToExportError)
    assert result.exception.exit_code == 3
    text = str(result.exception)
    assert "of 8 episodes, 7 by another agent, 1 with a partial score below 0.5" in text
    assert list(tmp_path.glob("*o*")) == [tmp_path / "bench-home"]


def test_the_folder_of_out_is_made(ids: list[str], invoke: Invoke, tmp_path: Path) -> None:
    out = tmp_path / "a" / "b" / "o.jsonl"
    empty = invoke(export, "--agent", "oracle", "--split", "all", "--clean", "--out", out)
    assert isinstance(empty.exception, NothingToExportError)
    assert not (tmp_path / "a").exists()  # nothing is written, so nothing is made
    assert invoke(export, "--out", out).exit_code == 0
    names = ["o.jsonl", "o.jsonl.left-out.json", "o.jsonl.manifest.json"]
    assert sorted(path.name for path in out.parent.iterdir()) == names
    (tmp_path / "file").write_text("")
    assert "cannot write" in str(invoke(export, "--out", tmp_path / "file" / "o").exception)


def test_atif_names_the_agent_s_version(invoke: Invoke, tmp_path: Path) -> None:
    record([(planned(), Episode())], agent="codex", agent_version="0.99.1", model="m")
    invoke(export, "--format", "atif", "--out", tmp_path / "o")
    (row,) = data(tmp_path / "o")
    agent = {name: row["agent"][name] for name in ("name", "version", "model_name")}
    assert agent == {"name": "codex", "version": "0.99.1", "model_name": "m"}


def test_no_recordings_at_all(invoke: Invoke, tmp_path: Path) -> None:
    result = invoke(export, "--out", tmp_path / "o")
    assert isinstance(result.exception, NothingToExportError)
    assert "mcp-bench record" in str(result.exception)


def test_files_are_overwritten_only_with_force(ids: list[str], invoke: Invoke, tmp_path: Path) -> None:
    out = tmp_path / "o"
    out.write_text("precious")
    result = invoke(export, "--out", out)
    assert isinstance(result.exception, WrongUseError)
    assert "--force" in str(result.exception)
    assert out.read_text() == "precious"
    assert invoke(export, "--out", out, "--force").exit_code == 0
    assert len(data(out)) == 3


@pytest.mark.parametrize(
    ("options", "near"),
    [
        (["--format", "trrl"], "trl"),
        (["--split", "tran"], "train"),
        (["--agent", "codx"], "codex"),
        (["--benchmark", "agentdoj"], "agentdojo"),
        (["--run", "run_nope"], "run_"),
    ],
)
def test_unknown_names(ids: list[str], invoke: Invoke, tmp_path: Path, options: list[str], near: str) -> None:
    result = invoke(export, *options, "--out", tmp_path / "o")
    assert isinstance(result.exception, UnknownNameError)
    assert near in str(result.exception).split("(", 1)[1]
    assert result.exception.exit_code == 2


def test_a_failure_halfway_keeps_the_old_files(ids: list[str], invoke: Invoke, tmp_path: Path) -> None:
    """The last run is damaged, so the export fails after it has written rows."""
    out = tmp_path / "o"
    assert invoke(export, "--out", out).exit_code == 0
    before = {path: path.read_bytes() for path in tmp_path.glob("o*")}
    folder, _ = record([(planned("bad"), Episode())])
    with closing(sqlite3.connect(folder.path / "recordings.db")) as connection, connection:
        connection.execute("DROP TABLE messages")
    result = invoke(export, "--out", out, "--force")
    assert isinstance(result.exception, BenchError), result.exception
    assert "recordings.db" in str(result.exception)
    assert {path: path.read_bytes() for path in tmp_path.glob("o*")} == before
    assert not list(tmp_path.glob(".o*"))


def test_help_shows_examples_and_loads_no_heavy_module(invoke: Invoke) -> None:
    assert "mcp-bench export --min-partial" in invoke(export, "--help").output
    code = (
        "import sys; from mcp_bench.recorder.cli import export, report, show;"
        "print([m for m in ('pydantic', 'sqlite_utils', 'rich', 'mcp', 'sqlite3') if m in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_stdout_is_no_place_for_a_data_set(
    ids: list[str], invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = invoke(export, "--out", "-")
    assert isinstance(result.exception, WrongUseError)
    assert "name a file" in str(result.exception)
    assert [path.name for path in tmp_path.iterdir()] == ["bench-home"]
