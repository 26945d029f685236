"""`mcp-bench import` of valid and malformed rows: its output and the stored recordings."""

import json
import logging
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from mcp_bench.recorder.cli.export import export
from mcp_bench.recorder.cli.import_ import import_
from mcp_bench.recorder.cli.report import report
from mcp_bench.recorder.cli.verify import verify
from mcp_bench.recorder.importers import store
from mcp_bench.recorder.importers.run import Defaults, import_paths
from mcp_bench.servers.errors import BenchError, UnknownNameError, WrongUseError
from tests.support.recorded import Episode, planned, record

pytestmark = pytest.mark.system

Invoke = Callable[..., Result]
CALL = {"id": "c", "type": "function", "function": {"name": "look", "arguments": '{"at": "x"}'}}
GOOD = {
    "messages": [
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c", "content": "nothing"},
        {"role": "assistant", "content": "Nothing there."},
    ],
    "tools": [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}],
}


def write(path: Path, *rows: Any) -> Path:
    texts = [row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows]
    path.write_bytes(b"\n".join(texts) + b"\n")
    return path


def imported(invoke: Invoke, *arguments: str | Path, code: int = 0) -> dict[str, Any]:
    result = invoke(import_, *arguments, "--json")
    assert result.exit_code == code, (result.output, result.exception)
    document: dict[str, Any] = json.loads(result.stdout)
    return document


def episodes(home: Path) -> list[sqlite3.Row]:
    rows = []
    for path in sorted(home.glob("runs/*/recordings.db")):
        with closing(sqlite3.connect(path)) as db:
            db.row_factory = sqlite3.Row
            rows += db.execute("SELECT * FROM episode_summary JOIN episodes USING (id)").fetchall()
    return rows


def test_plain_chat_rows_are_ungraded_recordings(bench_home: Path, invoke: Invoke, tmp_path: Path) -> None:
    path = write(tmp_path / "chats.jsonl", GOOD)
    result = invoke(import_, path, "--benchmark", "desk", "--agent", "helper", "--split", "train")
    assert result.exit_code == 0, result.output
    (episode,) = episodes(bench_home)
    assert result.stdout == f"imported 1 episodes as openai ({episode['run']})\n"
    assert (episode["benchmark"], episode["agent"], episode["split"], episode["calls"]) == (
        "desk",
        "helper",
        "train",
        1,
    )
    assert (
        json.loads(episode["source"]).items()
        >= {"file": "chats.jsonl", "row": "line 1", "format": "openai"}.items()
    )
    assert (episode["prompt"], episode["answer"]) == ("Look.", "Nothing there.")
    (row,) = json.loads(invoke(report, "--json").stdout)
    assert (row["episodes"], row["partial"], row["verified"], row["unknown"]) == (1, None, 0, 1)
    assert row["terminations"] == {"unknown": 1}
    assert "unknown" not in invoke(report).stdout, "how it ended is not known, and no error"
    assert invoke(verify).exit_code == 0


def test_importing_twice_adds_nothing(bench_home: Path, invoke: Invoke, tmp_path: Path) -> None:
    other = {**GOOD, "metadata": {"partial": 0.5, "task": "t"}}
    first = write(tmp_path / "a.jsonl", GOOD, other, GOOD)
    document = imported(invoke, first)
    assert (document["imported"], document["known"]) == (2, 1)
    again = imported(invoke, write(tmp_path / "b.jsonl", other, GOOD))
    assert (again["imported"], again["known"], again["runs"]) == (0, 2, [])
    assert len(episodes(bench_home)) == 2
    assert not (bench_home / "importing").exists()


def test_a_damaged_run_stops_no_import(
    bench_home: Path, invoke: Invoke, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    damaged, _ = record([(planned(), Episode())])
    (damaged.path / "recordings.db").write_bytes(b"not a database, " * 500)
    assert imported(invoke, write(tmp_path / "a.jsonl", GOOD))["imported"] == 1
    assert imported(invoke, write(tmp_path / "b.jsonl", GOOD))["known"] == 1
    assert f"{damaged.id} is not compared" in caplog.text


def test_an_export_of_this_store_is_not_imported_again(
    bench_home: Path, invoke: Invoke, tmp_path: Path
) -> None:
    record([(planned(), Episode())])
    assert invoke(export, "--out", tmp_path / "rows.jsonl").exit_code == 0
    assert imported(invoke, tmp_path / "rows.jsonl")["known"] == 1
    assert len(episodes(bench_home)) == 1


BAD: dict[str, tuple[Any, str]] = {
    "no JSON": (b'{"messages": [', "not JSON"),
    "no UTF-8": (b'{"messages": "\xff"}', "not UTF-8"),
    "no number": (b'{"messages": [], "metadata": {"partial": NaN}}', "NaN is not a JSON number"),
    "no object": ([1], "not a JSON object"),
    "too deep": (b'{"messages": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
    "no messages": ({"text": "x"}, "neither messages nor prompt"),
    "empty": ({"messages": []}, "messages"),
    "role": ({"messages": [{"role": "robot"}]}, "unknown role 'robot'"),
    "no tool": ({"messages": [{"role": "assistant", "tool_calls": [{"id": "c"}]}]}, "has no tool name"),
    "arguments": (
        {"messages": [{"role": "assistant", "tool_calls": [{"name": "f", "arguments": "[1]"}]}]},
        "not a JSON object",
    ),
    "result": ({"messages": [{"role": "tool", "content": "x"}]}, "message 0 is a tool result without a call"),
    "result of another": (
        {
            "messages": [
                {"role": "assistant", "tool_calls": [CALL]},
                {"role": "tool", "tool_call_id": "gone", "content": "x"},
            ]
        },
        "message 1 is the result of the call 'gone', which is not open",
    ),
    "grade": ({**GOOD, "metadata": {"partial": 7}}, "partial"),
    "seed": ({**GOOD, "metadata": {"seed": 2**70}}, "seed"),
    "tool": ({**GOOD, "tools": [{"type": "function"}]}, "a tool has no name"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_row_is_reported_and_left_out(
    bench_home: Path, invoke: Invoke, tmp_path: Path, name: str
) -> None:
    row, words = BAD[name]
    path = write(tmp_path / "rows.jsonl", GOOD, row, {**GOOD, "metadata": {"task": "other"}})
    result = invoke(import_, path, "--format", "openai")
    assert result.exit_code == 1, (result.output, result.exception)
    assert result.stdout.startswith("imported 2 episodes")
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"left out: {path}, line 2: "), line
    assert words in line
    assert len(episodes(bench_home)) == 2


def test_row_content_cannot_control_the_terminal(invoke: Invoke, tmp_path: Path) -> None:
    path = write(tmp_path / "rows.jsonl", {"messages": [{"role": "\x1b]0;mine\x07\n"}]})
    result = invoke(import_, path, "--format", "openai")
    assert "\x1b" not in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_lone_surrogates_become_question_marks(bench_home: Path, invoke: Invoke, tmp_path: Path) -> None:
    row = json.dumps(GOOD).replace("Nothing there.", "\\ud83d there \\ud83d\\ude42").encode()
    assert imported(invoke, write(tmp_path / "rows.jsonl", row))["imported"] == 1
    assert [episode["answer"] for episode in episodes(bench_home)] == ["? there 🙂"]


def test_a_failed_import_leaves_nothing(
    bench_home: Path, invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second row cannot be stored, for example because the disk is full."""
    real = store._store

    def full(folder: Any, attempt: Any, *rest: Any) -> None:
        if attempt.task == "other":
            raise OSError(28, "No space left on device")
        real(folder, attempt, *rest)

    monkeypatch.setattr(store, "_store", full)
    path = write(tmp_path / "rows.jsonl", GOOD, {**GOOD, "metadata": {"task": "other"}})
    assert isinstance(invoke(import_, path).exception, OSError)
    assert not list(bench_home.glob("runs/*"))
    assert not (bench_home / "importing").exists()
    monkeypatch.undo()
    monkeypatch.setenv("MCP_BENCH_HOME", str(bench_home))
    assert imported(invoke, path)["imported"] == 2


def test_results_belong_to_calls_without_an_id(bench_home: Path, invoke: Invoke, tmp_path: Path) -> None:
    """Some tools name the call in its result only."""
    said = [
        {"role": "assistant", "tool_calls": [CALL, {**CALL, "id": None}]},
        {"role": "tool", "tool_call_id": "x1", "content": "one"},
        {"role": "tool", "tool_call_id": "c", "content": "two"},
    ]
    imported(invoke, write(tmp_path / "rows.jsonl", {"messages": said, "partial": 1, "split": "train"}))
    assert invoke(export, "--out", tmp_path / "out.jsonl").exit_code == 0
    first, *results = json.loads((tmp_path / "out.jsonl").read_text())["messages"]
    (named, unnamed) = (call["id"] for call in first["tool_calls"])
    assert [(m["tool_call_id"], m["content"]) for m in results] == [(unnamed, "one"), (named, "two")]


def test_ids_and_results_are_normalised(bench_home: Path, invoke: Invoke, tmp_path: Path) -> None:
    """The same id in two turns, a result without an id, and an unanswered call."""
    call = {"id": "c", "name": "look", "arguments": {}}
    said: list[dict[str, Any]] = [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Look."},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
            ],
        },
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "one"},
        {"role": "assistant", "tool_calls": [json.dumps(call), {**call, "id": "d"}]},
        {"role": "tool", "tool_call_id": "d", "content": "two", "is_error": True},
    ]
    imported(
        invoke,
        write(tmp_path / "rows.jsonl", {"messages": said, "metadata": {"partial": 1, "split": "train"}}),
    )
    assert invoke(export, "--out", tmp_path / "out.jsonl").exit_code == 0
    row = json.loads((tmp_path / "out.jsonl").read_text())
    assert row["messages"][0]["content"] == "Look.\n[image: image/png, 4 characters of base64]"
    ids = [call["id"] for message in row["messages"] for call in message.get("tool_calls", ())]
    assert ids == ["c", "call_1", "d"]
    results = [
        (m["tool_call_id"], m["name"], m["content"], m.get("is_error", False))
        for m in row["messages"]
        if m["role"] == "tool"
    ]
    assert results == [("c", "look", "one", False), ("d", "look", "two", True)]
    with closing(sqlite3.connect(next(bench_home.glob("runs/*/recordings.db")))) as db:
        assert db.execute("SELECT outcome FROM calls ORDER BY id").fetchall() == [
            ("ok",),
            ("cancelled",),
            ("tool_error",),
        ]


def test_the_format_is_that_of_the_first_row_that_can_be_read(invoke: Invoke, tmp_path: Path) -> None:
    document = imported(invoke, write(tmp_path / "rows.jsonl", b"garbage", GOOD), code=1)
    assert (document["format"], document["imported"]) == ("openai", 1)
    assert document["bad"][0]["where"] == "line 1"


def test_single_calls_are_no_episodes(bench_home: Path, invoke: Invoke, tmp_path: Path) -> None:
    call = {
        "step": 1,
        "label": "error",
        "objectives": 1,
        "met": 0,
        "broken": 0,
        "partial": 1.0,
        "strict": True,
    }
    steps = {"prompt": GOOD["messages"][:1], "completion": GOOD["messages"][1:2], **call}
    write(tmp_path / "a.jsonl", GOOD)
    document = imported(invoke, tmp_path / "a.jsonl", write(tmp_path / "b.jsonl", steps), code=1)
    assert document["imported"] == len(episodes(bench_home)) == 1
    (bad,) = document["bad"]
    assert bad["file"].endswith("b.jsonl") and "single calls" in bad["reason"]


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        (["nowhere.jsonl"], WrongUseError, "nowhere.jsonl does not exist"),
        (["rows.jsonl", "--format", "opnai"], UnknownNameError, "did you mean openai"),
        (["odd.jsonl"], WrongUseError, "use --format"),
        (["list.jsonl"], WrongUseError, r"list.jsonl (line 1: the row is not a JSON object): use --format"),
        (["empty"], WrongUseError, "nothing to import"),
        (["empty", "--format", "codex"], WrongUseError, "rollout-*.jsonl"),
        (["rows.jsonl", "--split", "\udcff"], WrongUseError, "--split is not UTF-8"),
    ],
)
def test_wrong_use(
    invoke: Invoke,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    kind: type[BenchError],
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "rows.jsonl", GOOD)
    write(tmp_path / "odd.jsonl", {"text": "x"})
    write(tmp_path / "list.jsonl", [GOOD])
    (tmp_path / "empty").mkdir()
    result = invoke(import_, *options)
    assert isinstance(result.exception, kind), result.exception
    assert words in str(result.exception)
    assert result.exception.exit_code == 2


@pytest.mark.parametrize("name", ["x.jsonl.gz", "x.jsonl.zst", "x.parquet", "x.eval", "x.json"])
@pytest.mark.parametrize("form", ["openai", "inspect", "atif", "automationbench", "verifiers"])
def test_a_damaged_file_is_reported(invoke: Invoke, tmp_path: Path, name: str, form: str) -> None:
    starts = {
        "gz": b"\x1f\x8b\x08\0",
        "zst": b"\x28\xb5\x2f\xfd",
        "parquet": b"PAR1",
        "eval": b"PK\x03\x04",
        "json": b"{",
    }
    path = tmp_path / name
    path.write_bytes(starts[name.rpartition(".")[2]] + b"damage")
    document = imported(invoke, path, "--format", form, code=1)
    assert document["imported"] == 0
    assert document["bad"][0]["file"] == str(path)
    assert document["bad"][0]["reason"]


def test_an_import_waits_for_another(
    bench_home: Path, invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It begins when the runs of the first are written and closed, and not in the store yet."""
    first = write(tmp_path / "first.jsonl", GOOD)
    second = write(tmp_path / "second.jsonl", GOOD, {**GOOD, "messages": GOOD["messages"][:3]})
    enter, waits, others = store.ledger_of, threading.Event(), []

    def meanwhile(*arguments: Any) -> Any:
        monkeypatch.setattr(store, "ledger_of", enter)
        others.append(pool.submit(import_paths, [second], None, Defaults(benchmark="desk")))
        others[0].add_done_callback(lambda _: waits.set())
        assert waits.wait(120)
        return enter(*arguments)

    monkeypatch.setattr(store, "ledger_of", meanwhile)
    monkeypatch.setattr(logging.getLogger(store.__name__), "warning", lambda *_: waits.set())
    with ThreadPoolExecutor(1) as pool:
        imported(invoke, first, "--benchmark", "desk")
        outcome = others[0].result()
    assert (outcome.imported, outcome.known) == (1, 1)
    assert len(episodes(bench_home)) == 2
    assert not (bench_home / "importing").exists()
