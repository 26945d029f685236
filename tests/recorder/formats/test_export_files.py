"""Parts, compression and Parquet hold the same rows."""

import gzip
import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import pyarrow.parquet
import pytest
import zstandard
from click.testing import Result
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam
from pydantic import TypeAdapter

from mcp_bench.recorder.cli.export import export
from mcp_bench.recorder.cli.import_ import import_
from mcp_bench.recorder.curation.pipeline import Curation
from mcp_bench.recorder.curation.selection import Selection
from mcp_bench.recorder.export.rows import Episodes
from mcp_bench.recorder.export.write import export as write_export
from mcp_bench.recorder.files.parquet import cells
from mcp_bench.recorder.formats.sharegpt import ShareGPT
from mcp_bench.recorder.importers.sharegpt import ShareGPT as ImportedShareGPT
from mcp_bench.recorder.trajectory import FunctionCall, Message, ToolCall, Trajectory
from mcp_bench.servers.errors import BenchError, WrongUseError
from tests.support.recorded import Episode, planned, record

pytestmark = pytest.mark.system

Invoke = Callable[..., Result]
STORIES = [
    (planned(f"t{number}"), Episode(calls=[("look", {f"key{number}": None}, "Grüße 🙂"), ("go", {}, "!no")]))
    for number in range(5)
]


@pytest.fixture(autouse=True)
def store(bench_home: Path) -> None:
    record(STORIES, model="m")


@pytest.fixture
def write(invoke: Invoke, tmp_path: Path) -> Callable[..., dict[str, Any]]:
    def run(name: str, *options: str) -> dict[str, Any]:
        result = invoke(export, "--out", tmp_path / name, *options, "--json")
        assert result.exit_code == 0, (result.output, result.exception)
        manifest: dict[str, Any] = json.loads(result.stdout)
        return manifest

    return run


def test_parts_hold_the_rows_in_order(write: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    write("whole.jsonl")
    manifest = write("train.jsonl", "--shard-size", "2")
    names = [f"train-{number:05d}-of-00003.jsonl" for number in range(3)]
    assert [(file["name"], file["rows"]) for file in manifest["files"]] == list(
        zip(names, (2, 2, 1), strict=True)
    )
    parts = [(tmp_path / name).read_bytes() for name in names]
    assert b"".join(parts) == (tmp_path / "whole.jsonl").read_bytes()
    assert [file["sha256"] for file in manifest["files"]] == [
        hashlib.sha256(part).hexdigest() for part in parts
    ]
    assert [file["bytes"] for file in manifest["files"]] == [len(part) for part in parts]
    assert sorted(path.name for path in tmp_path.glob("train*")) == [*names, "train.jsonl.manifest.json"]


def test_fewer_parts_replace_more(
    write: Callable[..., dict[str, Any]], invoke: Invoke, tmp_path: Path
) -> None:
    write("train.jsonl", "--shard-size", "2")
    (tmp_path / "train-00000-of-00009.txt").write_text("mine")
    refused = invoke(export, "--out", tmp_path / "train.jsonl", "--shard-size", "3")
    assert isinstance(refused.exception, WrongUseError)
    write("train.jsonl", "--shard-size", "3", "--force")
    assert sorted(path.name for path in tmp_path.glob("train*")) == [
        "train-00000-of-00002.jsonl", "train-00000-of-00009.txt", "train-00001-of-00002.jsonl",
        "train.jsonl.manifest.json",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("x.jsonl.gz", ()),
        ("x.jsonl", ("--compress", "gzip")),
        ("x.jsonl.zst", ()),
        ("x.jsonl", ("--compress", "zstd")),
    ],
)
def test_compressed_files_are_reproducible(
    write: Callable[..., dict[str, Any]], tmp_path: Path, name: str, options: tuple[str, ...]
) -> None:
    write("plain.jsonl")
    path = tmp_path / write(name, *options)["data"]
    before = path.read_bytes()
    if path.suffix == ".gz":
        plain = gzip.decompress(before)
        assert before[4:8] == bytes(4)  # no time
    else:
        plain = zstandard.ZstdDecompressor().decompressobj().decompress(before)
    assert plain == (tmp_path / "plain.jsonl").read_bytes()
    write(name, *options, "--force")
    assert path.read_bytes() == before


@pytest.mark.parametrize("form", ["trl", "openai", "prime-rl", "verifiers", "atif", "sharegpt"])
def test_parquet_is_read_back_unchanged(
    write: Callable[..., dict[str, Any]], tmp_path: Path, form: str
) -> None:
    """By `datasets`, without the nulls that Arrow adds for keys that only other rows have."""
    write("rows.jsonl", "--format", form)
    write("rows.parquet", "--format", form, "--compress", "zstd")
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text("utf-8").splitlines()]
    loaded = datasets.load_dataset(
        "parquet", data_files=str(tmp_path / "rows.parquet"), split="train", cache_dir=str(tmp_path / "cache")
    )
    loaded_rows = [{name: value for name, value in row.items() if value is not None} for row in loaded]
    assert loaded_rows == [{name: value for name, value in row.items() if value is not None} for row in rows]


def test_parquet_is_reproducible(write: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    first = write("rows.parquet")
    assert write("rows.parquet", "--force")["sha256"] == first["sha256"]
    assert pyarrow.parquet.ParquetFile(tmp_path / "rows.parquet").metadata.num_rows == 5


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("x.jsonl.gz", ("--compress", "zstd"), "contradicts the file name"),
        ("x.jsonl", ("--compress", "gzp"), "did you mean gzip"),
        ("x.jsonl", ("--shard-size", "0"), "must be 1 or more"),
        ("x.parquet.gz", (), "Parquet compresses internally"),
    ],
)
def test_wrong_use(invoke: Invoke, tmp_path: Path, name: str, options: tuple[str, ...], words: str) -> None:
    result = invoke(export, "--out", tmp_path / name, *options)
    assert isinstance(result.exception, WrongUseError)
    assert words in str(result.exception)
    assert [path.name for path in tmp_path.iterdir()] == ["bench-home"]


class Bare:
    """A format of another package, for JSON lines only."""

    name, summary, suffix = "bare", "episodes by name", ".jsonl"

    def row(self, trajectory: Trajectory) -> dict[str, Any]:
        return {"id": trajectory.id, "task": trajectory.task}


def test_parquet_needs_a_format_with_columns(tmp_path: Path) -> None:
    def run(form: Any, name: str) -> dict[str, Any]:
        return write_export(Episodes(form), tmp_path / name, Curation(Selection(splits=("train",))))

    assert run(Bare(), "rows.jsonl")["rows"] == 5
    with pytest.raises(WrongUseError, match=r"bare declares no `columns`.* --out .*rows\.jsonl"):
        run(Bare(), "rows.parquet")
    with pytest.raises(BenchError, match=r"no column for task\. .* or write JSON lines"):
        cells({"id": "string"}, {"id": "ep", "task": "t"})
    assert not (tmp_path / "rows.parquet").exists()


def test_an_export_that_ended_first_is_kept(invoke: Invoke, tmp_path: Path) -> None:
    """Two commands with the same --out can run at once."""
    out = tmp_path / "rows.jsonl"

    class Slow(Bare):
        def row(self, trajectory: Trajectory) -> dict[str, Any]:
            if not out.exists():
                assert invoke(export, "--out", out).exit_code == 0
            return super().row(trajectory)

    with pytest.raises(WrongUseError, match="already exists"):
        write_export(Episodes(Slow()), out, Curation(Selection()))
    manifest = json.loads((tmp_path / "rows.jsonl.manifest.json").read_text())
    assert (manifest["format"], len(out.read_bytes().splitlines())) == ("trl", 5)
    assert not list(tmp_path.glob(".rows*"))


def test_openai_rows_match_the_types_of_its_library(
    write: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    write("rows.jsonl", "--format", "openai")
    for line in (tmp_path / "rows.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        TypeAdapter(list[ChatCompletionMessageParam]).validate_python(row["messages"], strict=False)
        TypeAdapter(list[ChatCompletionToolParam]).validate_python(row["tools"])
        assert all(
            isinstance(call["function"]["arguments"], str)
            for m in row["messages"]
            for call in m.get("tool_calls", ())
        )


def test_prime_rl_rows_can_be_parsed_by_its_trainer(
    write: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    write("rows.jsonl", "--format", "prime-rl")
    row = json.loads((tmp_path / "rows.jsonl").read_text("utf-8").splitlines()[0])
    assert [message["role"] for message in row["prompt"]] == ["user"]
    assert row["completion"][0]["role"] == "assistant"
    calls = [
        json.loads(call["function"]["arguments"])
        for m in row["completion"]
        for call in m.get("tool_calls", ())
    ]
    assert calls == [{"key0": None}, {}]
    assert json.loads(row["tools"])[0]["type"] == "function"


def test_sharegpt_turns_alternate_where_the_agent_said_nothing(tmp_path: Path) -> None:
    """It can end its turn after a result, and the user speaks again."""
    call = ToolCall(id="c1", function=FunctionCall(name="pay", arguments={}))
    said = [
        Message(role="user", content="Pay."),
        Message(role="assistant", tool_calls=[call]),
        Message(role="tool", content="paid", tool_call_id="c1", name="pay"),
        Message(role="user", content="And now?"),
        Message(role="assistant", content="Done."),
    ]
    facts = {
        "id": "ep",
        "benchmark": "b",
        "task": "t",
        "split": "train",
        "domain": "d",
        "agent": "a",
        "seed": 0,
    }
    row = ShareGPT().row(Trajectory(**facts, isolation="none", messages=said, tools=[]))
    assert [turn["from"] for turn in row["conversations"]] == [
        "human", "function_call", "observation", "gpt", "human", "gpt"
    ]  # fmt: skip
    (tmp_path / "rows.jsonl").write_text(json.dumps(row))
    [read] = ImportedShareGPT().rows(tmp_path / "rows.jsonl")
    [attempt] = read.attempts()
    assert [message.role for message in attempt.messages] == [message.role for message in said]


def test_llama_factory_finds_the_call_after_a_thought(tmp_path: Path) -> None:
    """It takes the first thought out of a call's turn, and stops if the rest is no JSON."""
    arguments = {"text": "<think>not mine</think>"}
    call = ToolCall(id="c1", function=FunctionCall(name="write", arguments=arguments))
    said = [
        Message(role="user", content="Write."),
        Message(role="assistant", reasoning="A </think> ends it.\nOr not?", tool_calls=[call]),
        Message(role="tool", content="ok", tool_call_id="c1", name="write"),
        Message(role="assistant", tool_calls=[call.model_copy(update={"id": "c2"})]),
        Message(role="tool", content="ok", tool_call_id="c2", name="write"),
        Message(role="assistant", reasoning="</think>", content="Done."),
    ]
    names = ("id", "benchmark", "task", "split", "domain", "agent", "isolation")
    row = ShareGPT().row(Trajectory(**dict.fromkeys(names, "x"), seed=0, messages=said, tools=[]))
    called = [turn["value"] for turn in row["conversations"] if turn["from"] == "function_call"]
    for value in called:
        thought = re.search("<think>(.*?)</think>", value, re.DOTALL)  # as its FunctionFormatter does
        rest = value.replace(thought[0], "") if thought else value
        assert json.loads(rest) == {"name": "write", "arguments": arguments}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row))
    [read] = ImportedShareGPT().rows(tmp_path / "rows.jsonl")
    [attempt] = read.attempts()
    thoughts = [message.reasoning for message in attempt.messages if message.role == "assistant"]
    assert thoughts == ["A </ think> ends it.\nOr not?", None, "</ think>"]
    assert attempt.messages[-1].content == "Done."


def test_sharegpt_results_are_in_the_order_of_calls(invoke: Invoke, tmp_path: Path) -> None:
    """Its rows have no ids. In rows of other tools, whichever call ended first can come first."""
    calls = [
        {"id": name, "type": "function", "function": {"name": name, "arguments": "{}"}} for name in ("a", "b")
    ]
    said = [
        {"role": "user", "content": "Look at both."},
        {"role": "assistant", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "b", "content": "result of b"},
        {"role": "tool", "tool_call_id": "a", "content": "result of a"},
        {"role": "assistant", "content": "Done."},
    ]
    (tmp_path / "chats.jsonl").write_text(json.dumps({"messages": said, "metadata": {"partial": 1.0}}))
    options = ("--format", "openai", "--benchmark", "helpdesk", "--split", "train")
    assert invoke(import_, tmp_path / "chats.jsonl", *options).exit_code == 0
    out = tmp_path / "rows.jsonl"
    assert invoke(export, "--benchmark", "helpdesk", "--format", "sharegpt", "--out", out).exit_code == 0
    _, called, observed, _ = json.loads(out.read_text("utf-8"))["conversations"]
    assert [call["name"] for call in json.loads(called["value"])] == ["a", "b"]
    assert json.loads(observed["value"]) == ["result of a", "result of b"]


def test_sharegpt_turns_alternate_and_are_listed(
    write: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    """LLaMA-Factory skips a row whose turns do not alternate or do not end with the agent's."""
    (tmp_path / "dataset_info.json").write_text(json.dumps({"mine": {"file_name": "mine.json"}}))
    write("train.jsonl", "--format", "sharegpt", "--shard-size", "3")
    for path in tmp_path.glob("train-*.jsonl"):
        for line in path.read_text("utf-8").splitlines():
            turns = [turn["from"] for turn in json.loads(line)["conversations"]]
            assert len(turns) % 2 == 0
            assert set(turns[::2]) <= {"human", "observation"}
            assert set(turns[1::2]) <= {"gpt", "function_call"}
    index = json.loads((tmp_path / "dataset_info.json").read_text())
    assert list(index) == ["mine", "train-00000-of-00002", "train-00001-of-00002"]
    assert index["train-00001-of-00002"] == {
        "file_name": "train-00001-of-00002.jsonl", "formatting": "sharegpt",
        "columns": {"messages": "conversations", "system": "system", "tools": "tools"},
    }  # fmt: skip


def test_the_index_lists_each_part_of_a_name_with_dots(
    write: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    write("llama.v1.jsonl", "--format", "sharegpt", "--shard-size", "3")
    index = json.loads((tmp_path / "dataset_info.json").read_text())
    assert {name: entry["file_name"] for name, entry in index.items()} == {
        f"llama.v1-0000{number}-of-00002": f"llama.v1-0000{number}-of-00002.jsonl" for number in (0, 1)
    }


def test_the_index_forgets_parts_that_were_replaced(
    write: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    write("train.jsonl", "--format", "sharegpt", "--shard-size", "2")
    index = json.loads((tmp_path / "dataset_info.json").read_text())
    other = {"file_name": "train-other.jsonl"}
    (tmp_path / "dataset_info.json").write_text(json.dumps({**index, "other": other}))
    write("train.jsonl", "--format", "sharegpt", "--force")
    index = json.loads((tmp_path / "dataset_info.json").read_text())
    assert {name: entry["file_name"] for name, entry in index.items()} == {
        "other": "train-other.jsonl", "train": "train.jsonl"
    }  # fmt: skip


def test_an_unreadable_index_is_kept(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "dataset_info.json").write_text("{")
    result = invoke(export, "--format", "sharegpt", "--out", tmp_path / "train.jsonl")
    assert isinstance(result.exception, WrongUseError)
    assert (tmp_path / "dataset_info.json").read_text() == "{"
    assert not list(tmp_path.glob("*train*"))
