"""Files of other tools become recordings with the tools' own grades."""

import json
import sqlite3
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from mcp_bench.recorder.cli.export import export
from mcp_bench.recorder.cli.import_ import import_

pytestmark = pytest.mark.contract

Invoke = Callable[..., Result]
INSPECT_LOG = Path(__file__).with_name("adding.eval")
"""Written by inspect-ai 0.3.285: a sample with two parallel calls, one of which fails, and one with one call."""


def exported(invoke: Invoke, path: Path, out: Path, form: str) -> list[dict[str, Any]]:
    """Import a file, check the detected format, and return all graded rows."""
    result = invoke(import_, path, "--json")
    assert result.exit_code == 0, (result.output, result.exception)
    assert json.loads(result.stdout)["format"] == form
    result = invoke(export, "--split", "all", "--min-partial", 0, "--out", out, "--force")
    assert result.exit_code == 0, result.exception
    return [json.loads(line) for line in out.read_text("utf-8").splitlines()]


def sealed(home: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for path in sorted(home.glob("runs/*/grades.db")):
        with closing(sqlite3.connect(path)) as db:
            db.row_factory = sqlite3.Row
            rows += [dict(row) for row in db.execute("SELECT * FROM grades ORDER BY episode")]
    return rows


def test_inspect(bench_home: Path, invoke: Invoke, tmp_path: Path) -> None:
    rows = exported(invoke, INSPECT_LOG, tmp_path / "o", "inspect")
    assert [(row["benchmark"], row["task"], row["model"], row["partial"], row["strict"]) for row in rows] == [
        ("adding", "one", "mockllm/model", 1.0, True),
        ("adding", "two", "mockllm/model", 0.0, False),
    ]
    one, two = rows
    assert [message["role"] for message in one["messages"]] == [
        "system",
        "user",
        "assistant",
        "tool",
        "tool",
        "assistant",
    ]
    calls = [call["function"] for call in one["messages"][2]["tool_calls"]]
    assert calls == [
        {"name": "add", "arguments": {"x": 1, "y": 1}},
        {"name": "add", "arguments": {"x": -1, "y": 2}},
    ]
    assert [(m["content"], m.get("is_error", False)) for m in one["messages"][3:5]] == [
        ("2 ÄÖ🙂", False),
        ("no negative numbers", True),
    ]
    assert one["usage"]["output_tokens"] == 21
    assert one["tools"][0]["function"]["parameters"]["required"] == ["x", "y"]
    # the log stores long texts as attachments
    assert two["messages"][1]["content"] == "What is 20+22? " + "long " * 400
    assert json.loads(sealed(bench_home)[0]["assertions"])[0] == {
        "name": "includes", "passed": True, "detail": "The answer is 2",
    }  # fmt: skip


def test_older_inspect_versions(invoke: Invoke, tmp_path: Path) -> None:
    """A log with deflate instead of zstd, a model error, and a score with several parts."""
    sample: dict[str, Any] = {
        "id": 7, "epoch": 2, "input": "Hi", "target": "", "scores": {"s": {"value": {"a": 1, "b": "I"}}},
        "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": [{"type": "text", "text": "Ho"}]}],
    }  # fmt: skip
    path = tmp_path / "old.eval"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps({"eval": {"task": "old", "model": "m"}}))
        archive.writestr("samples/7_epoch_2.json", json.dumps(sample))
        archive.writestr(
            "samples/8_epoch_1.json", json.dumps({**sample, "id": 8, "error": {"message": "boom"}})
        )
    (row,) = exported(invoke, path, tmp_path / "o", "inspect")
    assert (row["task"], row["seed"], row["partial"], row["messages"][1]["content"]) == ("7", 1, 0.5, "Ho")


def test_verifiers_results(bench_home: Path, invoke: Invoke, tmp_path: Path) -> None:
    folder = tmp_path / "evals" / "desk-env--org--model" / "0a1b2c3d"
    folder.mkdir(parents=True)
    call = json.dumps({"id": "c1", "name": "look", "arguments": '{"at": "x"}'})
    row: dict[str, Any] = {
        "example_id": 3, "task": "desk", "reward": 0.25, "error": None, "metrics": {"partial_credit": 0.25},
        "prompt": [{"role": "system", "content": "S"}, {"role": "user", "content": "Look."}],
        "completion": [
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "nothing"},
            {"role": "assistant", "content": "Nothing.", "reasoning_content": "So."},
        ],
        "info": json.dumps({"task_name": "desk.look"}), "timing": {}, "is_completed": True, "partial_credit": 0.25,
        "tool_defs": [{"name": "look", "description": "Look.", "parameters": {"type": "object"}}],
        "token_usage": {"input_tokens": 12.0, "output_tokens": 3.0},
    }  # fmt: skip
    error = {"error": "ModelError", "error_chain_repr": "r", "error_chain_str": "no answer"}
    lines = [row, {**row, "example_id": 4, "info": {}, "error": error}]
    (folder / "results.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (folder / "metadata.json").write_text(json.dumps({"env_id": "desk-env", "model": "org/model"}))
    (got,) = exported(invoke, tmp_path / "evals", tmp_path / "o", "verifiers")
    assert (got["benchmark"], got["task"], got["model"], got["partial"]) == (
        "desk-env",
        "desk.look",
        "org/model",
        0.25,
    )
    assert got["messages"][2]["tool_calls"][0]["function"] == {"name": "look", "arguments": {"at": "x"}}
    assert got["messages"][-1]["reasoning_content"] == "So."
    assert got["usage"] == {"input_tokens": 12, "output_tokens": 3}
    with closing(sqlite3.connect(next(bench_home.glob("runs/*/recordings.db")))) as db:
        assert db.execute("SELECT invalid, invalid_detail FROM episodes WHERE task = '4'").fetchall() == [
            ("source_error", "no answer")
        ]


def test_verifiers_traces_with_branches(invoke: Invoke, tmp_path: Path) -> None:
    """Two agents in one episode, and a tree whose longest branch is the conversation."""

    def node(parent: int | None, role: str, text: str) -> dict[str, Any]:
        return {"parent": parent, "message": {"role": role, "content": text}, "sampled": role == "assistant"}

    nodes = [
        node(None, "user", "Q"),
        node(0, "assistant", "cut off"),
        node(0, "assistant", "A"),
        node(2, "user", "more"),
        node(3, "assistant", "B"),
    ]
    trace = {
        "task": {"type": "T", "data": {"idx": 5, "id": "t5"}},
        "nodes": nodes,
        "ok": True,
        "agent": {"name": "solver", "config": {"model": "m"}},
        "rewards": {
            "right": {"score": 0.5, "weight": 1.0},
            "short": {"score": 2.0, "weight": 0.1},
            "unscored": None,
        },
    }
    episode = {
        "id": "e",
        "env": {"id": "env"},
        "task": trace["task"],
        "ok": True,
        "traces": [trace, {**trace, "agent": {"name": "judge"}, "rewards": {}}],
    }
    (tmp_path / "traces.jsonl").write_text(json.dumps(episode))
    (row,) = exported(invoke, tmp_path / "traces.jsonl", tmp_path / "o", "verifiers")
    assert [message["content"] for message in row["messages"]] == ["Q", "A", "more", "B"]
    assert (row["benchmark"], row["task"], row["agent"], row["model"], row["partial"]) == (
        "env",
        "t5",
        "solver",
        "m",
        0.7,
    )


def test_automationbench(bench_home: Path, invoke: Invoke, tmp_path: Path) -> None:
    call = {
        "id": "c",
        "type": "function",
        "function": {"name": "api_fetch", "arguments": '{"method": "GET", "url": "/x"}'},
    }
    task: dict[str, Any] = {
        "id": 12, "name": "sales.follow_up", "score": 0.5, "passed": False, "assertions_total": 2, "assertions_passed": 1,
        "input_tokens": 100, "output_tokens": 10, "steps": 2, "finish_reasons": ["stop"], "end_state": {"crm": {}},
        "assertion_results": [
            {"type": "record_exists", "passed": True, "excluded": False, "params": {"id": 1}},
            {"type": "no_mail", "passed": False, "excluded": False, "params": {}},
        ],
        "messages": [
            {"role": "system", "content": "S"}, {"role": "user", "content": "Follow up."},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": "{}"}, {"role": "assistant", "content": "Done."},
        ],
    }  # fmt: skip
    document = {
        "meta": {"model": "org/m", "toolset": "api"},
        "summary": {},
        "tasks": [task, {**task, "messages": "?"}, 5],
    }
    path = tmp_path / "export.json"
    path.write_text(json.dumps(document))
    result = invoke(import_, path)
    assert result.exit_code == 1
    errors = [line.rpartition("export.json, ")[2] for line in result.stderr.splitlines()]
    assert errors == ["task 2: messages is not a list", "task 3: the task is not a JSON object"]
    rows = sealed(bench_home)
    grades = [(row["partial"], row["strict"], row["grader_version"]) for row in rows]
    assert grades == [(0.5, 0, "imported from automationbench")]
    assert [assertion["passed"] for assertion in json.loads(rows[0]["assertions"])] == [True, False]
    assert json.loads(rows[0]["final_state"]) == {"crm": {}}


def test_evalscope(invoke: Invoke, tmp_path: Path) -> None:
    folder = tmp_path / "outputs" / "reviews" / "my-model"
    folder.mkdir(parents=True)
    score = {"value": {"acc": 1.0}, "main_score_name": "acc", "explanation": "right", "prediction": "4"}
    row = {
        "index": 0,
        "target": "4",
        "messages": [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "4"}],
        "sample_score": {"score": score, "sample_id": 9, "group_id": 9},
    }
    (folder / "arithmetic_easy.jsonl").write_text(json.dumps(row))
    (got,) = exported(invoke, tmp_path / "outputs", tmp_path / "o", "evalscope")
    assert (got["benchmark"], got["domain"], got["task"], got["model"]) == (
        "arithmetic",
        "easy",
        "arithmetic_easy/9",
        "my-model",
    )
    assert (got["partial"], got["messages"][1]["content"]) == (1.0, "4")


def test_harbor(invoke: Invoke, tmp_path: Path) -> None:
    trial = tmp_path / "jobs" / "trial"
    (trial / "agent").mkdir(parents=True)
    steps = [
        {"step_id": 1, "source": "user", "message": "Fix it."},
        {"step_id": 2, "source": "agent", "message": "", "reasoning_content": "Hm.",
         "tool_calls": [{"tool_call_id": "a", "function_name": "bash", "arguments": {"command": "ls"}}],
         "observation": {"results": [{"source_call_id": "a", "content": [{"type": "text", "text": "x.py"}]}]}},
        {"step_id": 3, "source": "agent", "message": "Fixed."},
    ]  # fmt: skip
    document = {
        "schema_version": "ATIF-v1.5",
        "session_id": "s",
        "agent": {"name": "terminus", "version": "2.0", "model_name": "m"},
        "steps": steps,
        "final_metrics": {"total_prompt_tokens": 9, "total_completion_tokens": 2},
    }
    (trial / "agent" / "trajectory.json").write_text(json.dumps(document))
    (trial / "result.json").write_text(
        json.dumps({"task_name": "fix-it", "verifier_result": {"rewards": {"reward": 1.0}}})
    )
    (row,) = exported(invoke, tmp_path / "jobs", tmp_path / "o", "atif")
    assert (row["task"], row["agent"], row["model"], row["partial"]) == ("fix-it", "terminus", "m", 1.0)
    assert [message.get("content") for message in row["messages"]] == ["Fix it.", None, "x.py", "Fixed."]
    assert row["usage"] == {"input_tokens": 9, "output_tokens": 2}


@pytest.mark.parametrize("verdict", ["broken", ["broken"], {"rewards": "broken"}])
def test_an_odd_file_of_harbor_keeps_back_no_other(
    bench_home: Path, invoke: Invoke, tmp_path: Path, verdict: object
) -> None:
    """Harbor's agents run as other users, whose files can be closed."""
    said = [{"source": "user", "message": "Fix it."}, {"source": "agent", "message": "Fixed."}]
    document = {"schema_version": "ATIF-v1.5", "agent": {"name": "a", "version": "1"}, "steps": said}
    for trial in ("closed", "odd"):
        (tmp_path / trial / "agent").mkdir(parents=True)
    (tmp_path / "closed" / "agent" / "trajectory.json").symlink_to("/proc/self/mem")  # reading it fails
    (tmp_path / "odd" / "agent" / "trajectory.json").write_text(json.dumps(document))
    (tmp_path / "odd" / "result.json").write_text(json.dumps({"task_name": "t", "verifier_result": verdict}))
    result = invoke(import_, tmp_path, "--format", "atif", "--json")
    assert result.exit_code == 1, result.exception
    outcome = json.loads(result.stdout)
    assert (outcome["imported"], sealed(bench_home)) == (1, [])
    assert [(bad["where"], bad["reason"]) for bad in outcome["bad"]] == [("", "Input/output error")]


def test_sharegpt_of_other_tools(invoke: Invoke, tmp_path: Path) -> None:
    turns = [
        {"from": "human", "value": "Weather?"},
        {"from": "function_call", "value": '{"name": "weather", "arguments": {"city": "Ulm"}}'},
        {"from": "observation", "value": "sunny"},
        {"from": "gpt", "value": "Sunny."},
    ]
    tools = json.dumps([{"name": "weather", "description": "w", "parameters": {"type": "object"}}])
    path = tmp_path / "share.jsonl"
    path.write_text(json.dumps({"conversations": turns, "system": "S", "tools": tools}))
    document = json.loads(invoke(import_, path, "--json").stdout)
    assert (document["format"], document["imported"], document["bad"]) == ("sharegpt", 1, [])


def test_sharegpt_results_with_a_lone_surrogate(invoke: Invoke, tmp_path: Path) -> None:
    calls = '[{"name": "a", "arguments": {}}, {"name": "b", "arguments": {}}]'
    turns = [
        {"from": "human", "value": "Both?"},
        {"from": "function_call", "value": calls},
        {"from": "observation", "value": '["\\ud800", "fine"]'},
        {"from": "gpt", "value": "Done."},
    ]
    path = tmp_path / "share.jsonl"
    path.write_text(json.dumps({"conversations": turns, "tools": "[]"}))
    result = invoke(import_, path, "--json")
    assert (result.exit_code, result.exception) == (0, None)
    assert json.loads(result.stdout)["imported"] == 1
