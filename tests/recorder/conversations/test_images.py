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
from mcp_bench.recorder.cli.show import show
from mcp_bench.recorder.conversations.align import align
from mcp_bench.recorder.conversations.load import trajectory
from mcp_bench.recorder.records import EpisodeEnd, now_us
from mcp_bench.recorder.store.reader import RunReader
from mcp_bench.recorder.store.run_folder import RunFolder
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
