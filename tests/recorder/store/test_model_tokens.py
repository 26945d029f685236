"""The tokens of model calls: kept without loss, stored once for each conversation, and signed."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_bench.recorder.model_api.dialects.dialect import Tokens
from mcp_bench.recorder.records import new_id
from mcp_bench.recorder.runs.reader import RunReader
from mcp_bench.recorder.runs.run_folder import RunFolder
from mcp_bench.recorder.store.model_calls import ModelRequest, ModelResponse, begin, settle
from mcp_bench.recorder.store.model_tokens import storable
from tests.support.recorded import begin as begin_episode
from tests.support.recorded import planned, run_info
from tests.support.spoiling import ODD_VALUES

pytestmark = pytest.mark.component

ids = st.lists(st.integers(0, 2**32 - 1), max_size=20)
logprobs = st.floats(-100, 0, width=32)
PATHS = {"/v1/chat/completions": "stop", "/v1/responses": "completed", "/v1/messages": "end_turn"}


def answer(path: str, tokens: Tokens) -> dict[str, Any]:
    """Return an answer as our engine gives it in one of the APIs."""
    reported = {
        "prompt_token_ids": tokens.prompt_ids, "token_ids": tokens.ids, "token_logprobs": tokens.logprobs,
        "system_fingerprint": tokens.version,
    }  # fmt: skip
    return wrapped(path, reported)


def wrapped(path: str, reported: dict[str, Any]) -> dict[str, Any]:
    """Return an answer with some fields more than it needs."""
    if path.endswith("completions"):
        return {"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}], **reported}
    if path.endswith("responses"):
        return {"status": "completed", "output": [], **reported}
    return {"stop_reason": "end_turn", "content": [], **reported}


def store(run: RunFolder, episode: str, path: str, tokens: Tokens) -> str:
    return store_answer(run, episode, path, answer(path, tokens))


def store_answer(
    run: RunFolder, episode: str, path: str, said: Any, asked: bytes = b'{"tools": [{}]}'
) -> str:
    request = ModelRequest(new_id("mc"), episode, 1, "POST", path, {}, asked)
    body = json.dumps(said).encode()
    response = ModelResponse(1, 2, 200, {"content-type": "application/json"}, body, "complete")

    async def add() -> None:
        await begin(run.recording.writer, request)
        await settle(run.recording.writer, request, response)

    anyio.run(add)
    return request.id


@given(prompt=ids, sampled=st.lists(st.tuples(st.integers(0, 2**32 - 1), logprobs), min_size=1))
def test_what_an_engine_reports_can_be_stored(prompt: list[int], sampled: list[tuple[int, float]]) -> None:
    assert storable(Tokens(prompt, [one for one, _ in sampled], [one for _, one in sampled]))


def test_what_the_arrays_would_change_cannot_be_stored() -> None:
    assert not storable(Tokens([1], [2], [-0.1]))  # no float32
    assert not storable(Tokens([1], [2**32], [-0.5]))
    assert not storable(Tokens([1], [-1], [-0.5]))
    assert not storable(Tokens([1], [2, 3], [-0.5]))
    assert not storable(Tokens([1], [2], None))
    odd: Any = ["x"]
    assert not storable(Tokens(odd, [2], [-0.5]))


TOKENS: dict[str, Any] = {"prompt_token_ids": [1], "token_ids": [2], "token_logprobs": [-0.5]}
ODD = [
    {"token_ids": 5},
    {"token_logprobs": -1.0},
    {"prompt_token_ids": "1"},
    {"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}, None]},
    *(
        {"choices": [{"message": {"content": "x"}, "finish_reason": "stop", "logprobs": odd}]}
        for odd in (["x"], {"content": ["x"]}, {"content": 5}, "x")
    ),
]
odd_fields = st.fixed_dictionaries(
    {}, optional=dict.fromkeys([*TOKENS, "choices", "content", "output", "usage", "model"], ODD_VALUES)
)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunFolder, str]]:
    """An open run with an episode, for any number of answers."""
    with RunFolder.create(run_info(), root=tmp_path_factory.mktemp("runs")) as run:
        yield run, begin_episode(run, planned())


def read_back(run: RunFolder, call: str) -> Any:
    with run.recording.writer.reading() as db:
        body, done = db.execute("SELECT response, ended_us FROM model_calls WHERE id = ?", [call]).fetchone()
    assert done is not None
    return json.loads(body)


@pytest.mark.parametrize("odd", ODD)
def test_an_odd_answer_is_stored(kept: tuple[RunFolder, str], odd: dict[str, Any]) -> None:
    path = "/v1/chat/completions"
    said = wrapped(path, TOKENS | odd)
    assert read_back(kept[0], store_answer(*kept, path, said)) == said


@given(path=st.sampled_from(sorted(PATHS)), odd=odd_fields)
def test_any_answer_is_stored(kept: tuple[RunFolder, str], path: str, odd: dict[str, Any]) -> None:
    said = wrapped(path, TOKENS | odd)
    assert read_back(kept[0], store_answer(*kept, path, said)) == said


@pytest.mark.parametrize("path", PATHS)
def test_a_conversation_is_stored_once_and_read_whole(tmp_path: Path, path: str) -> None:
    first = Tokens([1, 2, 3], [4, 5], [-0.5, -0.25], "6")
    second = Tokens([1, 2, 3, 4, 5, 6], [7], [-1.0], "7")
    beside = Tokens([1, 2, 9], [4], [0.0], "7")
    with RunFolder.create(run_info(), root=tmp_path) as run:
        episode = begin_episode(run, planned())
        calls = [store(run, episode, path, one) for one in (first, second, beside)]
    with RunReader(run.path) as reader:
        found = {call: document for call, _, document in reader.model_answers(episode)}
        read = [
            Tokens(*(found[call][name] for name in ("prompt_token_ids", "token_ids", "token_logprobs")),
                   found[call]["system_fingerprint"])
            for call in calls
        ]  # fmt: skip
        assert read == [first, second, beside]
    with closing(sqlite3.connect(run.path / "recordings.db")) as db:
        rows = db.execute("SELECT extends, prompt FROM model_tokens ORDER BY rowid").fetchall()
        stored = [json.loads(text) for (text,) in db.execute("SELECT answer FROM model_calls ORDER BY id")]
    assert rows == [(None, bytes([1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0])), (calls[0], bytes([6, 0, 0, 0])),
                    (None, bytes([1, 0, 0, 0, 2, 0, 0, 0, 9, 0, 0, 0]))]  # fmt: skip
    assert not any("token_ids" in document for document in stored)


@pytest.mark.parametrize("path", PATHS)
def test_answers_of_an_agent_that_never_offers_tools(tmp_path: Path, path: str) -> None:
    said = answer(path, Tokens([1], [2], [-0.5], "6"))
    with RunFolder.create(run_info(), root=tmp_path) as run:
        alone, mixed = (begin_episode(run, planned(repeat=repeat)) for repeat in range(2))
        beside = store_answer(run, alone, path, said, b"{}")
        store_answer(run, mixed, path, said, b"{}")
        turn = store_answer(run, mixed, path, said)
    with RunReader(run.path) as reader:
        assert [call for call, _, _ in reader.model_answers(alone)] == [beside]
        assert [call for call, _, _ in reader.model_answers(mixed)] == [turn], "a title is no turn"
