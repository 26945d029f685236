"""Inspect's logs in both of its file kinds, with epochs, errors, attachments and odd scores."""

import json
import tracemalloc
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from mcp_bench.recorder.cli.import_ import import_
from mcp_bench.recorder.conversations.load import trajectory
from mcp_bench.recorder.importers.inspect_log import InspectLog
from mcp_bench.recorder.importers.json_document import members
from mcp_bench.recorder.runs.find import run_paths
from mcp_bench.recorder.runs.reader import RunReader, StoredEpisode
from mcp_bench.recorder.trajectory import Trajectory

pytestmark = pytest.mark.component

Invoke = Callable[..., Result]
SPEC = {"task": "adding", "solver": "react", "model": "org/m", "dataset": {}, "config": {}, "created": ""}
NAME = "2026-11-21T19-07-04+00-00_adding_BuzQHVRb.json"
HEADER = {"version": 2, "status": "success", "eval": SPEC, "plan": {}, "stats": {"model_usage": {}}}


def sample(**fields: Any) -> dict[str, Any]:
    call = {"id": "c1", "function": "add", "arguments": {"x": 1}, "type": "function"}
    return {
        "id": 7, "epoch": 1, "input": "Add.", "target": "2",
        "messages": [
            {"role": "user", "content": "attachment://long"},
            {"role": "assistant", "tool_calls": [call], "content": [
                {"type": "reasoning", "reasoning": "hidden", "redacted": True, "summary": "I add."},
                {"type": "text", "text": "Adding."}]},
            {"role": "tool", "tool_call_id": "c1", "function": "add", "content": "",
             "error": {"type": "timeout", "message": "too slow"}},
            {"role": "assistant", "content": "2"},
        ],
        "attachments": {"long": "Add. " * 50},
        "scores": {"judge": {"value": float("nan")}, "exact": {"value": "P", "explanation": "half"}},
        "model_usage": {"org/m": {"input_tokens": 5, "input_tokens_cache_read": 3, "output_tokens": 2,
                                  "total_tokens": 10, "total_cost": 0.25}},
        **fields,
    }  # fmt: skip


SAMPLES = [
    sample(),
    sample(epoch=2, scores={"exact": {"value": "C"}}),
    sample(id="late", error={"message": "boom", "traceback": "", "traceback_ansi": ""}, messages=[]),
    sample(id="gone", invalidation={"reason": "wrong data"}),
    sample(id="slow", limit={"type": "time", "limit": 60}),
]


def as_json(folder: Path) -> Path:
    path = folder / NAME
    path.write_text(json.dumps({**HEADER, "samples": SAMPLES, "reductions": []}, indent=1))
    return path


def as_eval(folder: Path) -> Path:
    path = folder / "adding.eval"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.json", json.dumps(HEADER))
        for number, one in enumerate(SAMPLES):
            archive.writestr(f"samples/{number}_epoch_{one['epoch']}.json", json.dumps(one))
    return path


def stored() -> list[tuple[StoredEpisode, Trajectory]]:
    found = []
    for path in run_paths():
        with RunReader(path) as reader:
            found += [(episode, trajectory(reader, episode)) for episode in reader.episodes()]
    return found


@pytest.mark.parametrize("write", [as_json, as_eval])
def test_a_log_of_either_kind_is_imported(
    bench_home: Path, invoke: Invoke, tmp_path: Path, write: Callable[[Path], Path]
) -> None:
    write(tmp_path)
    result = invoke(import_, tmp_path, "--json")  # a folder: the kind of file is found by its name
    assert result.exit_code == 0, (result.output, result.exception)
    assert json.loads(result.stdout)["format"] == "inspect"
    found = {(episode.task, episode.seed): (episode, conversation) for episode, conversation in stored()}
    assert {key: (episode.partial, episode.invalid_detail) for key, (episode, _) in found.items()} == {
        ("7", 0): (0.5, None), ("7", 1): (1.0, None), ("late", 0): (0.5, "boom"),
        ("gone", 0): (0.5, "invalidated: wrong data"), ("slow", 0): (0.5, None),
    }  # fmt: skip
    assert found["slow", 0][0].termination == "timeout"
    episode, conversation = found["7", 0]
    assert (episode.agent, episode.model, episode.isolation) == ("react", "org/m", "none")
    user, said, result_of, answer = conversation.messages
    assert user.content == "Add. " * 50
    assert (said.reasoning, said.content, said.tool_calls[0].id) == ("I add.", "Adding.", "c1")
    assert (result_of.content, result_of.is_error, answer.content) == ("too slow", True, "2")
    usage = conversation.usage
    assert usage is not None
    assert (usage.input_tokens, usage.cached_tokens, usage.cost_usd) == (8, 3, 0.25)
    assert found["late", 0][1].messages[0].content == "Add."


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"version": 2, "eval": {"task"', '{"eval": 1}', "\xff{", "{" * 9]
)
def test_a_file_of_another_kind_is_not_recognised(tmp_path: Path, text: str) -> None:
    path = tmp_path / NAME
    path.write_bytes(text.encode("latin-1"))
    assert not InspectLog().recognises(path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: text[: len(text) // 2], "early"),
        (lambda text: text.replace('"samples": [', '"samples": [1, '), "not a JSON object"),
        (lambda text: text.replace('"samples"', '"others"'), "no samples"),
        (lambda text: text.replace('"solver"', '"solver" "x"'), "not JSON"),
    ],
)
def test_a_damaged_document_says_where(
    bench_home: Path, invoke: Invoke, tmp_path: Path, change: Callable[[str], str], words: str
) -> None:
    path = as_json(tmp_path)
    path.write_text(change(path.read_text()))
    result = invoke(import_, path, "--format", "inspect")
    assert (result.exit_code, words in result.stderr) == (1, True), result.stderr


def test_a_large_document_needs_the_memory_of_a_sample(tmp_path: Path) -> None:
    path = tmp_path / NAME
    one = json.dumps(sample(attachments={"long": "x" * 200_000}))
    with path.open("w") as file:
        file.write(json.dumps(HEADER)[:-1] + ', "samples": [' + one)
        for _ in range(59):  # 12 MB
            file.write("," + one)
        file.write("]}")
    tracemalloc.start()
    try:
        assert sum(len(list(row.attempts())) for row in InspectLog().rows(path)) == 60
        assert tracemalloc.get_traced_memory()[1] < 3_000_000
    finally:
        tracemalloc.stop()


class ByteByByte(BytesIO):
    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(1)


def test_a_number_is_whole_wherever_a_piece_of_the_file_ends() -> None:
    text = '{"a": 12, "b": -1.25, "c": 3.5e-07, "samples": [1E+5, {"d": 0.5}], "e": 2.0}'
    listed = [*members(ByteByByte(text.encode()), "samples")]
    assert listed == [
        ("a", 12), ("b", -1.25), ("c", 3.5e-07), ("samples", 1e5), ("samples", {"d": 0.5}), ("e", 2.0),
    ]  # fmt: skip


def test_a_damaged_sample_of_an_archive_is_named(bench_home: Path, invoke: Invoke, tmp_path: Path) -> None:
    path = as_eval(tmp_path)
    with zipfile.ZipFile(path) as archive:
        entry = archive.getinfo("samples/0_epoch_1.json")
    content = bytearray(path.read_bytes())
    content[entry.header_offset + 30 + len(entry.filename) + 20] ^= 1
    path.write_bytes(content)
    result = invoke(import_, path, "--json")
    assert not isinstance(result.exception, zipfile.BadZipFile)
    assert "samples/0_epoch_1.json cannot be unpacked" in result.output
