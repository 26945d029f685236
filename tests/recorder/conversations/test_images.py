"""Images in results of tools: from the recorded frames to `show` and to exported rows."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from mcp_bench.recorder.cli.export import export
from mcp_bench.recorder.cli.import_ import import_
from mcp_bench.recorder.cli.show import show
from mcp_bench.recorder.conversations.align import align
from mcp_bench.recorder.conversations.load import trajectory
from mcp_bench.recorder.records import EpisodeEnd, now_us
from mcp_bench.recorder.runs.reader import RunReader
from mcp_bench.recorder.runs.run_folder import RunFolder
from mcp_bench.recorder.trajectory import Message
from mcp_bench.servers.contracts import Grade, Image
from tests.support.recorded import begin, line, planned, request, response, run_info

pytestmark = pytest.mark.component

Invoke = Callable[..., Result]
SMALL, LARGE = b"\x89PNG small", b"\x89PNG" + bytes(12_345)


def block(data: bytes, media_type: str = "image/png") -> dict[str, Any]:
    return {"type": "image", "data": b64encode(data).decode(), "mimeType": media_type}


def image(data: bytes, media_type: str = "image/png") -> Image:
    return Image(data=b64encode(data).decode(), media_type=media_type)


def played(folder: RunFolder, contents: list[list[dict[str, Any]]]) -> str:
    """Record an episode whose calls return these blocks; the agent's transcript has no images."""
    episode = begin(folder, folder.info.plan[len(folder.grades.graded())])
    for number, blocks in enumerate(contents, start=1):
        folder.recording.store_frame(episode, 1, "client", request(number, "look", {"at": number}))
        folder.recording.mark_executed(episode, 1, number)
        result = {"content": blocks, "isError": False}
        answer = line({"jsonrpc": "2.0", "id": number, "result": result}) if blocks else response(number, "-")
        folder.recording.store_frame(episode, 1, "server", answer)
    folder.recording.close_connection(episode, 1)
    calls = folder.recording.recorded_calls(episode)
    messages = align("Look.", [Message(role="assistant", content="A cat.")], calls)
    end = EpisodeEnd(termination="agent_exit", connections=1, ended_us=now_us())
    folder.recording.end_episode(episode, end, messages)
    folder.grades.put(episode, Grade(partial=1, strict=True, grader_version="1"), None, now_us())
    return episode


@pytest.fixture
def episode(bench_home: Path) -> str:
    with RunFolder.create(run_info()) as folder:
        text = {"type": "text", "text": "A picture:"}
        return played(folder, [[text, block(SMALL)], [], [block(LARGE), block(SMALL, "image/jpeg")]])


def test_results_have_the_images_of_their_calls(episode: str, bench_home: Path) -> None:
    (run,) = (bench_home / "runs").iterdir()
    with RunReader(run) as reader:
        messages = trajectory(reader, reader.episode(episode)).messages
    results = [message for message in messages if message.role == "tool"]
    assert [message.images for message in results] == [
        [image(SMALL)], [], [image(LARGE), image(SMALL, "image/jpeg")],
    ]  # fmt: skip
    assert not any(message.images for message in messages if message.role != "tool")


def test_show_says_what_they_are_and_how_large(episode: str, invoke: Invoke) -> None:
    shown = invoke(show, episode).output
    assert "    A picture:\n    [image/png, 10 bytes]\n" in shown
    assert "    [image/png, 12 kB]\n    [image/jpeg, 10 bytes]\n" in shown
    document = json.loads(invoke(show, episode, "--json").stdout)
    described = [one["images"] for one in document["messages"] if "images" in one]
    assert [[one["sha256"] for one in images] for images in described] == [
        [sha256(SMALL).hexdigest()], [sha256(data).hexdigest() for data in (LARGE, SMALL)],
    ]  # fmt: skip
    assert block(LARGE)["data"] not in json.dumps(document)


def test_openai_rows_have_data_urls(episode: str, invoke: Invoke, tmp_path: Path) -> None:
    assert invoke(export, "--format", "openai", "--out", tmp_path / "d.jsonl").exit_code == 0
    (row,) = [json.loads(text) for text in (tmp_path / "d.jsonl").read_text().splitlines()]
    first, second, third = (one["content"] for one in row["messages"] if one["role"] == "tool")
    url = f"data:image/png;base64,{block(SMALL)['data']}"
    assert first == [{"type": "text", "text": "A picture:"}, {"type": "image_url", "image_url": {"url": url}}]
    assert second == "-"
    assert [part["image_url"]["url"][:16] for part in third] == ["data:image/png;b", "data:image/jpeg;"]


@pytest.mark.parametrize("form", ["trl", "prime-rl", "sharegpt", "verifiers", "atif"])
def test_other_rows_name_them(episode: str, invoke: Invoke, tmp_path: Path, form: str) -> None:
    assert invoke(export, "--format", form, "--out", tmp_path / "d.jsonl").exit_code == 0
    text = (tmp_path / "d.jsonl").read_text()
    assert "[image: image/png, 16 characters of base64]" in text
    assert block(SMALL)["data"] not in text


def test_other_images_make_another_conversation(bench_home: Path, invoke: Invoke, tmp_path: Path) -> None:
    """Their texts are equal: the images have the same size."""
    slots = [planned(repeat=n) for n in range(3)]
    with RunFolder.create(run_info(*slots)) as folder:
        for data in (b"one", b"two", b"two"):
            played(folder, [[block(data)]])
    assert invoke(export, "--dedupe", "exact", "--out", tmp_path / "d.jsonl").exit_code == 0
    assert len((tmp_path / "d.jsonl").read_text().splitlines()) == 2


def test_an_image_that_is_no_base64_is_shown(bench_home: Path, invoke: Invoke) -> None:
    broken = {"type": "image", "data": "ä" * 5, "mimeType": None}
    with RunFolder.create(run_info()) as folder:
        episode = played(folder, [[broken]])
    assert "[None, 10 bytes]" in invoke(show, episode).output


def rows_of(out: Path) -> list[dict[str, Any]]:
    return [json.loads(text) for text in out.read_text().splitlines()]


def tool_contents(row: dict[str, Any]) -> list[Any]:
    return [message["content"] for message in row["messages"] if message["role"] == "tool"]


def test_trl_rows_have_files_beside_them(episode: str, invoke: Invoke, tmp_path: Path) -> None:
    out = tmp_path / "data" / "d.jsonl"
    assert invoke(export, "--images", "files", "--out", out).exit_code == 0
    (row,) = rows_of(out)
    small, jpeg, large = (
        f"images/{sha256(data).hexdigest()}{ending}"
        for data, ending in ((SMALL, ".png"), (SMALL, ".jpg"), (LARGE, ".png"))
    )
    assert row["images"] == []
    assert tool_contents(row) == [
        [{"type": "text", "text": "A picture:"}, {"type": "image", "image": small}],
        [{"type": "text", "text": "-"}],
        [{"type": "image", "image": large}, {"type": "image", "image": jpeg}],
    ]
    assert {path.name for path in (out.parent / "images").iterdir()} == {
        Path(name).name for name in (small, jpeg, large)
    }
    assert (out.parent / large).read_bytes() == LARGE
    manifest = json.loads((tmp_path / "data" / "d.jsonl.manifest.json").read_text())
    assert manifest["images"] == {"count": 3, "as": "files", "files": sorted([small, jpeg, large])}


def test_trl_rows_have_data_urls_on_request(episode: str, invoke: Invoke, tmp_path: Path) -> None:
    result = invoke(export, "--images", "base64", "--redact", "secrets", "--out", tmp_path / "d.jsonl")
    assert "--redact does not read images" in result.stderr
    (row,) = rows_of(tmp_path / "d.jsonl")
    url = f"data:image/png;base64,{block(SMALL)['data']}"
    assert tool_contents(row)[0][1] == {"type": "image", "image": url}
    manifest = json.loads((tmp_path / "d.jsonl.manifest.json").read_text())
    assert manifest["images"] == {"count": 3, "as": "base64", "redacted": False}


def test_rows_without_images_are_of_the_same_form(bench_home: Path, invoke: Invoke, tmp_path: Path) -> None:
    with RunFolder.create(run_info()) as folder:
        played(folder, [[]])
    assert invoke(export, "--images", "files", "--out", tmp_path / "d.jsonl").exit_code == 0
    (row,) = rows_of(tmp_path / "d.jsonl")
    assert row["images"] == []
    assert all(isinstance(message.get("content", []), list) for message in row["messages"])
    assert not (tmp_path / "images").exists()


@pytest.mark.parametrize(
    "options",
    [("--images", "files"), ("--images", "base64"), ("--format", "openai")],
    ids=["files", "base64", "openai"],
)
@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_images_come_back(
    episode: str, invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...], ending: str,
) -> None:  # fmt: skip
    out = tmp_path / f"d.{ending}"
    assert invoke(export, *options, "--out", out).exit_code == 0
    monkeypatch.setenv("MCP_BENCH_HOME", str(tmp_path / "other"))
    assert invoke(import_, out).exit_code == 0, "imported"
    (run,) = (tmp_path / "other" / "runs").iterdir()
    with RunReader(run) as reader:
        (stored,) = reader.episodes()
        results = [one for one in trajectory(reader, stored).messages if one.role == "tool"]
    assert [message.images for message in results] == [
        [image(SMALL)], [], [image(LARGE), image(SMALL, "image/jpeg")],
    ]  # fmt: skip
    assert results[0].content == "A picture:\n[image: image/png, 16 characters of base64]"
    database = (run / "recordings.db").read_bytes()
    assert database.count(block(LARGE)["data"][:200].encode()) == 1


@pytest.mark.parametrize("name", ["images/../secret", "images/link", "images/missing.png"])
def test_a_row_cannot_name_other_files(bench_home: Path, invoke: Invoke, tmp_path: Path, name: str) -> None:
    (tmp_path / "secret").write_text("key")
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "link").symlink_to(tmp_path / "secret")
    content = [{"type": "image", "image": name}]
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": {}}}
    messages = [
        {"role": "user", "content": "Look."},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": content},
    ]
    (tmp_path / "d.jsonl").write_text(json.dumps({"messages": messages}) + "\n")
    result = invoke(import_, tmp_path / "d.jsonl", "--format", "trl")
    assert result.exit_code == 1
    assert f"the image {name}" in result.output


@pytest.mark.parametrize(
    "options", [("--format", "openai"), ("--format", "atif"), ("--pairs",), ("--steps",)]
)
def test_only_trl_rows_have_the_choice(
    episode: str, invoke: Invoke, tmp_path: Path, options: tuple[str, ...]
) -> None:
    result = invoke(export, "--images", "files", *options, "--out", tmp_path / "d.jsonl")
    assert "--images" in str(result.exception)


def test_a_failed_export_leaves_nothing(episode: str, invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "images").write_text("a file in the way")
    result = invoke(export, "--images", "files", "--out", tmp_path / "d.jsonl")
    assert "cannot write" in str(result.exception)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(("d.", "."))] == []
