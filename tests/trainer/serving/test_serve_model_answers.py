"""Tiny models with memorised answers, served by the real engine and called with OpenAI's client."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from openai import AuthenticationError, OpenAI
from starlette.testclient import TestClient

from mcp_bench.bridge.process.descendants import descendants
from mcp_bench.servers.errors import BenchError
from mcp_bench.trainer import supervised_process
from mcp_bench.trainer.engine.app import make_app
from mcp_bench.trainer.engine.load import load
from mcp_bench.trainer.serving import serve, server
from mcp_bench.trainer.trial.measuring import served
from mcp_bench.trainer.trial.settings import TrialSettings
from tests.support.training.byte_tokenizers import CHATML
from tests.support.training.tiny_checkpoints import (
    BROKEN_CALL,
    QUESTION,
    QWEN3_5_CALL,
    QWEN3_CALL,
    TOOLS,
    learn,
    make_tokenizer,
    qwen3,
    save,
)

pytestmark = pytest.mark.component

TROUBLE: list[dict[str, Any]] = [{"role": "user", "content": "Break it."}]
# The served history must keep text before a call: the model has learned different answers with and without it.
SAID = {"id": "c", "type": "function", "function": {"name": "find", "arguments": '{"name": "Ada"}'}}
HISTORY: list[dict[str, Any]] = [
    *QUESTION,
    {"role": "assistant", "content": "Let me look.", "tool_calls": [SAID]},
    {"role": "tool", "tool_call_id": "c", "content": "[]"},
]
FORGOTTEN = [QUESTION[0], {**HISTORY[1], "content": None}, HISTORY[2]]


def trained_history(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return messages as in training data, with arguments as objects."""
    call = {**SAID, "function": {"name": "find", "arguments": {"name": "Ada"}}}
    return [
        {**m, "content": m["content"] or "", "tool_calls": [call]} if "tool_calls" in m else m
        for m in messages
    ]


def ask(client: OpenAI, model: str, messages: list[dict[str, Any]], **settings: Any) -> Any:
    untyped: Any = client.chat.completions
    return untyped.create(model=model, messages=messages, tools=TOOLS, **settings).choices[0]


CHOICES: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "find",
            "parameters": {
                "type": "object",
                "properties": {"who": {"enum": ["Ada", "Ben"]}, "how": {"type": "boolean"}},
                "required": ["who", "how"],
            },
        },
    }
]


@contextmanager
def in_process(folder: Path) -> Iterator[TestClient]:
    """Run the engine's app in this process."""
    with TestClient(make_app(load(folder, calls="hermes", device="cpu"), "tuned")) as client:
        yield client


def body(**fields: Any) -> dict[str, Any]:
    return {"model": "tuned", "messages": QUESTION, "tools": TOOLS, **fields}


def post(client: TestClient, **fields: Any) -> dict[str, Any]:
    answer = client.post("/v1/chat/completions", json=body(**fields))
    assert answer.status_code == 200, answer.text
    choice: dict[str, Any] = answer.json()["choices"][0]
    return choice


def events(client: TestClient, **fields: Any) -> list[dict[str, Any]]:
    answer = client.post("/v1/chat/completions", json=body(stream=True, **fields))
    lines = [line.removeprefix("data: ") for line in answer.text.splitlines() if line]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


def streamed(client: TestClient, messages: list[dict[str, Any]], **fields: Any) -> list[str]:
    chunks = events(client, messages=messages, **fields)
    return [chunk["choices"][0]["delta"].get("content", "") for chunk in chunks]


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that has learned four answers by heart."""
    tokenizer = make_tokenizer(CHATML)
    model = qwen3(len(tokenizer))
    heart = [
        (QUESTION, QWEN3_CALL),
        (TROUBLE, BROKEN_CALL),
        (trained_history(HISTORY), "Nobody."),
        (trained_history(FORGOTTEN), "I <|im_start|>forgot."),  # special tokens have no text
    ]
    assert learn(model, tokenizer, heart, steps=400) < 0.1
    return save(model, tokenizer, tmp_path_factory.mktemp("memory") / "tuned")


def test_a_checkpoint_is_served_until_sigterm(tuned: Path) -> None:
    """The one test with the whole chain of processes; the others call the app."""
    command = [sys.executable, "-m", "mcp_bench.bridge.cli.root", "serve-model", str(tuned)]
    process = subprocess.Popen(
        [*command, "--engine", "torch", "--json"], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert process.stdout is not None
        document = json.loads(process.stdout.readline())
        client = OpenAI(base_url=document["url"], api_key=document["key"], max_retries=0)
        assert (document["model"], [m.id for m in client.models.list()]) == ("tuned", ["tuned"])
        assert f"--base-url {document['url']} --model tuned" in document["use"]
        call = ask(client, "tuned", QUESTION).message.tool_calls[0].function
        assert (call.name, json.loads(call.arguments)) == ("find", {"name": "Ada"})
        untyped: Any = client.chat.completions
        chunks = untyped.create(model="tuned", messages=QUESTION, tools=TOOLS, stream=True)
        assert sum(len(chunk.choices[0].delta.tool_calls or ()) for chunk in chunks) == 1
        with pytest.raises(AuthenticationError):
            client.with_options(api_key="wrong").models.list()
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        process.stdout.close() if process.stdout else None
    assert not Path(f"/proc/{document['pid']}").exists()


def test_answers_are_those_that_were_learned(tuned: Path) -> None:
    with in_process(tuned) as client:
        answer = post(client, messages=QUESTION)
        call = answer["message"]["tool_calls"][0]["function"]
        assert (answer["finish_reason"], call["name"]) == ("tool_calls", "find")
        assert json.loads(call["arguments"]) == {"name": "Ada"}
        # a malformed call is returned as text, not as a server error
        assert '"name": Ada' in post(client, messages=TROUBLE)["message"]["content"]
        assert post(client, messages=HISTORY)["message"]["content"] == "Nobody."
        assert "".join(streamed(client, TROUBLE)) == post(client, messages=TROUBLE)["message"]["content"]
        # requests that arrive together are decoded together, each with its own answer
        requests = [QUESTION, HISTORY, FORGOTTEN, TROUBLE] * 2
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda messages: post(client, messages=messages)["message"], requests))
        for one, other in zip(answers[:4], answers[4:], strict=True):
            assert (one["content"], "tool_calls" in one) == (other["content"], "tool_calls" in other)
        assert [message["content"] for message in answers[:3]] == [None, "Nobody.", "I forgot."]
        assert answers[0]["tool_calls"][0]["function"]["name"] == "find"


def test_a_stream_has_the_parts_of_the_whole_answer(tuned: Path) -> None:
    with in_process(tuned) as client:
        chunks = events(
            client, messages=QUESTION, stream_options={"include_usage": True}, return_token_ids=True
        )
        deltas = [chunk["choices"][0]["delta"] for chunk in chunks if chunk["choices"]]
        [call] = [call for delta in deltas for call in delta.get("tool_calls", ())]
        assert (call["index"], call["function"]["name"]) == (0, "find")
        whole = client.post(
            "/v1/chat/completions", json=body(messages=QUESTION, return_token_ids=True)
        ).json()
        assert chunks[-2]["choices"][0]["finish_reason"] == "tool_calls"
        assert chunks[-2]["choices"][0]["token_ids"] == whole["choices"][0]["token_ids"]
        assert chunks[0]["prompt_token_ids"] == whole["prompt_token_ids"]
        assert chunks[-1]["usage"]["total_tokens"] == whole["usage"]["total_tokens"]


def test_wrong_requests_are_named(tuned: Path) -> None:
    with in_process(tuned) as client:
        for wrong, status, words in (
            (
                {"messages": [{"role": "user", "content": "x" * 5000}]},
                400,
                "maximum context length is 4096 tokens",
            ),
            ({"model": "other"}, 404, "'other' does not exist"),
            ({"temperature": "hot"}, 400, "temperature: "),
            ({"messages": [{"content": "x"}]}, 400, "messages.0.role: "),
            ({"messages": []}, 400, "messages: "),
            ({"n": 2}, 400, "n: this engine gives one answer"),
            ({"max_tokens": 0}, 400, "max_tokens: "),
            ({"stop": [""]}, 400, "stop: a stop string cannot be empty"),
            ({"response_format": {"type": "json_object"}}, 400, "response_format: "),
            ({"tool_choice": "sometimes"}, 400, "tool_choice: "),
            ({"tool_choice": {"function": {"name": "fnid"}}}, 400, "no tool is named 'fnid'"),
            ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, 400, "not image_url"),
        ):
            answer = client.post("/v1/chat/completions", json=body(**wrong))
            error = answer.json()["error"]
            assert (answer.status_code, error["type"]) == (status, "invalid_request_error")
            assert words in error["message"], error
        long = [{"role": "user", "content": "x" * 5000}]
        answer = client.post("/v1/chat/completions", json=body(messages=long))
        assert answer.json()["error"]["code"] == "context_length_exceeded"
        assert "not JSON" in client.post("/v1/chat/completions", content=b"{").json()["error"]["message"]
        assert client.get("/v1/nowhere").json()["error"]["type"] == "invalid_request_error"
        assert client.get("/v1/models").json()["data"][0]["max_model_len"] == 4096
        assert client.get("/v1/models/other").status_code == 404


def test_a_request_decides_about_its_answer(tuned: Path) -> None:
    """Limits, stop strings, log-probabilities, tool_choice, sampling."""
    with in_process(tuned) as client:
        cut = post(client, messages=HISTORY, max_tokens=3)
        assert (cut["finish_reason"], cut["message"]["content"]) == ("length", "Nob")
        stopped = post(client, messages=HISTORY, stop="dy")
        assert (stopped["finish_reason"], stopped["message"]["content"]) == ("stop", "Nobo")
        assert "".join(streamed(client, HISTORY, stop="dy")) == "Nobo"
        none = post(client, messages=QUESTION, tool_choice="none")["message"]
        assert "tool_calls" not in none and none["content"].startswith("<tool_call>")
        listed = post(client, messages=HISTORY, logprobs=True, top_logprobs=2)["logprobs"]["content"]
        assert "".join(one["token"] for one in listed) == "Nobody.<|im_end|>"
        assert all(one["logprob"] == one["top_logprobs"][0]["logprob"] for one in listed)
        hot = {"messages": TROUBLE, "temperature": 2.0, "max_tokens": 30, "tool_choice": "none"}
        answers = [post(client, **hot, seed=seed)["message"]["content"] for seed in (1, 1, 2)]
        assert answers[0] == answers[1] != answers[2]


def test_required_calls_fit_the_schemas(tuned: Path) -> None:
    """The model learned to write an invalid call and plain text; held to a grammar, it writes valid calls."""
    with in_process(tuned) as client:
        for messages in (TROUBLE, HISTORY):
            answer = post(client, messages=messages, tool_choice="required", tools=CHOICES, max_tokens=200)
            [call] = answer["message"]["tool_calls"][:1]
            assert set(json.loads(call["function"]["arguments"])) == {"who", "how"}
        # a tool that is strict is held to its schema; text stays free
        strict = [{**TOOLS[0], "function": {**TOOLS[0]["function"], "strict": True}}]
        answer = post(client, messages=TROUBLE, tools=strict, max_tokens=60)
        assert '"name": "' in (answer["message"]["content"] or '"name": "')
        assert post(client, messages=HISTORY, tools=strict)["message"]["content"] == "Nobody."


# the base ties two layers that the adapter trains apart
@pytest.mark.filterwarnings("ignore:.*(tied layer|longer tied):UserWarning")
def test_an_adapter_is_merged_and_served(tuned: Path, tmp_path: Path) -> None:
    """It has learned another answer than its base."""
    from peft import LoraConfig, get_peft_model

    tokenizer = make_tokenizer(CHATML)
    model = get_peft_model(
        qwen3(len(tokenizer)).from_pretrained(tuned),
        LoraConfig(
            r=32, lora_alpha=128, target_modules="all-linear", modules_to_save=["embed_tokens", "lm_head"]
        ),
    )
    model.peft_config["default"].base_model_name_or_path = str(tuned)
    assert learn(model, tokenizer, [(QUESTION, QWEN3_5_CALL)], steps=300) < 0.1
    adapter = tmp_path / "adapter"
    model.save_pretrained(str(adapter))
    with serve(
        adapter, engine="torch", tool_call_parser="qwen3_coder", model_name="lab/tuned"
    ) as served_model:
        client = OpenAI(base_url=served_model.base_url, api_key=served_model.key, max_retries=0)
        call = ask(client, "lab/tuned", QUESTION).message.tool_calls[0].function
        assert (call.name, json.loads(call.arguments)) == ("find", {"name": "Ada"})
        os.kill(served_model.pid, signal.SIGKILL)
        with pytest.raises(BenchError, match="ended with exit code -9"):
            served_model.wait(60)
    assert (adapter / "merged" / "chat_template.jinja").read_text() == CHATML


@pytest.mark.parametrize(
    ("number", "words"),
    [
        # a killed engine is noticed where an adapter is served, too
        pytest.param(signal.SIGKILL, "torch ended with exit code -9", id="SIGKILL", marks=pytest.mark.full),
        pytest.param(signal.SIGSTOP, "stopped answering", id="SIGSTOP"),
    ],
)
def test_an_engine_that_ends_fails_the_measurement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, words: str
) -> None:
    if number == signal.SIGSTOP:
        monkeypatch.setattr(server, "ASK_SECONDS", 0.2)
        monkeypatch.setattr(server, "CHECK_SECONDS", 1.0)
        monkeypatch.setattr(supervised_process, "STOP_SECONDS", 0.2)  # a stopped process cannot react
    tokenizer = make_tokenizer(CHATML)
    folder = save(qwen3(len(tokenizer)), tokenizer, tmp_path / "base")
    port = tmp_path / "measure.port"
    settings = TrialSettings(recipe="tiny-cpu", benchmark="saasworld", dev=["any"], engine="torch")
    with pytest.raises(BenchError, match=words), served(folder, "base", port, settings):
        [engine] = [
            process
            for process in descendants(os.getpid())
            if port.read_text() in Path(f"/proc/{process}/cmdline").read_text().split("\0")
        ]
        ended = os.pidfd_open(engine)
        os.kill(engine, number)
        if number == signal.SIGKILL:
            select.select([ended], [], [])
        os.close(ended)
    assert port.exists()  # a resumed recording uses it


def test_an_engine_that_fails_at_start_shows_its_log(tmp_path: Path) -> None:
    tokenizer = make_tokenizer(CHATML)
    folder = save(qwen3(len(tokenizer)), tokenizer, tmp_path / "cut")
    config = folder / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "hidden_act": "no such"}))
    with (
        pytest.raises(BenchError, match=r"(?s)ended with exit code 1 during start-up.*engine\.log.*no such"),
        serve(folder, engine="torch"),
    ):
        pass
