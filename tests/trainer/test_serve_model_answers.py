"""Tiny models with memorised answers, served by the real engine and called with OpenAI's client."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from openai import BadRequestError, OpenAI

from mcp_bench.bridge.process.descendants import descendants
from mcp_bench.servers.errors import BenchError
from mcp_bench.trainer import supervised_process
from mcp_bench.trainer.loop.measuring import served
from mcp_bench.trainer.serving import serve, server
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
    qwen3_5,
    save,
)

pytestmark = [
    pytest.mark.filterwarnings("default"),
    pytest.mark.component,
]  # ignore warnings of torch and related packages

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


def test_a_checkpoint_is_served_until_sigterm(tmp_path: Path) -> None:
    tokenizer = make_tokenizer(CHATML)
    model = qwen3(len(tokenizer))
    heart = [
        (QUESTION, QWEN3_CALL),
        (TROUBLE, BROKEN_CALL),
        (trained_history(HISTORY), "Nobody."),
        (trained_history(FORGOTTEN), "I forgot."),
    ]
    assert learn(model, tokenizer, heart, steps=400) < 0.1
    folder = save(model, tokenizer, tmp_path / "tuned")
    command = [sys.executable, "-m", "mcp_bench.bridge.cli.root", "serve-model", str(folder)]
    process = subprocess.Popen(
        [*command, "--engine", "transformers", "--json"],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        document = json.loads(process.stdout.readline())
        client = OpenAI(base_url=document["url"], api_key=document["key"], max_retries=0)
        assert (document["model"], [m.id for m in client.models.list()]) == ("tuned", ["tuned"])
        assert f"--base-url {document['url']} --model tuned" in document["use"]

        answer = ask(client, "tuned", QUESTION)
        call = answer.message.tool_calls[0].function
        assert (answer.finish_reason, call.name, json.loads(call.arguments)) == (
            "tool_calls",
            "find",
            {"name": "Ada"},
        )
        # a malformed call is returned as text, not as a server error
        assert '"name": Ada' in ask(client, "tuned", TROUBLE).message.content
        assert ask(client, "tuned", HISTORY).message.content == "Nobody."
        untyped: Any = client.chat.completions
        for messages, calls in ((QUESTION, 1), (TROUBLE, 0)):
            chunks = untyped.create(model="tuned", messages=messages, tools=TOOLS, stream=True)
            assert sum(len(chunk.choices[0].delta.tool_calls or ()) for chunk in chunks) == calls
        # parallel requests are generated in one batch, each with its own answer
        requests = [QUESTION, HISTORY, FORGOTTEN, TROUBLE] * 2
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda messages: ask(client, "tuned", messages).message, requests))
        for one, other in zip(answers[:4], answers[4:], strict=True):
            assert (one.content, bool(one.tool_calls)) == (other.content, bool(other.tool_calls))
        assert [message.content for message in answers[:3]] == ["", "Nobody.", "I forgot."]
        assert answers[0].tool_calls[0].function.name == "find"
        with pytest.raises(BadRequestError, match="maximum context length is 4096 tokens"):
            ask(client, "tuned", [{"role": "user", "content": "x" * 5000}])
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        process.stdout.close() if process.stdout else None
    assert not Path(f"/proc/{document['pid']}").exists()


def test_an_adapter_is_merged_and_served(tmp_path: Path) -> None:
    from peft import LoraConfig, get_peft_model

    tokenizer = make_tokenizer(CHATML)
    base = save(qwen3_5(len(tokenizer)), tokenizer, tmp_path / "base")
    model = get_peft_model(
        qwen3_5(len(tokenizer)).from_pretrained(base),
        LoraConfig(
            r=32, lora_alpha=128, target_modules="all-linear", modules_to_save=["embed_tokens", "lm_head"]
        ),
    )
    model.peft_config["default"].base_model_name_or_path = str(base)
    assert learn(model, tokenizer, [(QUESTION, QWEN3_5_CALL)], steps=300) < 0.1
    adapter = tmp_path / "adapter"
    model.save_pretrained(str(adapter))
    with serve(
        adapter, engine="transformers", tool_call_parser="qwen3_coder", model_name="lab/tuned"
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
    [(signal.SIGKILL, "transformers ended with exit code -9"), (signal.SIGSTOP, "stopped answering")],
    ids=["SIGKILL", "SIGSTOP"],
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
    with pytest.raises(BenchError, match=words), served(folder, "base", port, "transformers", None):
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
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with (
        pytest.raises(
            BenchError, match=r"(?s)ended with exit code 1 during start-up.*engine\.log.*SafetensorError"
        ),
        serve(folder, engine="transformers"),
    ):
        pass
