"""Bases that cannot be used are refused before anything long starts, with what to do."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from mcp_bench.servers.errors import WrongUseError
from mcp_bench.trainer.architectures.base_sizes import read_architecture
from mcp_bench.trainer.plan import plan_recipe
from mcp_bench.trainer.sft.start import begin
from tests.support.training.short_training import rows, save_tokenizer, write_rows

pytestmark = pytest.mark.component

LLAMA: dict[str, Any] = {
    "model_type": "llama", "vocab_size": 99, "hidden_size": 48, "intermediate_size": 40,
    "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
    "max_position_embeddings": 1024, "tie_word_embeddings": False,
}  # fmt: skip


def folder(at: Path, **changed: object) -> str:
    at.mkdir(exist_ok=True)
    (at / "config.json").write_text(json.dumps({**LLAMA, **changed}))
    return str(at)


def refused(base: str) -> str:
    with pytest.raises(WrongUseError) as caught:
        plan_recipe("tiny-cpu", [f"model={{base: '{base}'}}"])
    return str(caught.value)


def test_a_base_that_is_no_model_is_refused(tmp_path: Path) -> None:
    assert "has no config.json" in refused(str(tmp_path))
    assert "does not exist" in refused(str(tmp_path / "gone"))
    assert "mcp-bench train base" in refused("smollm3")
    for content in ("[", "[]", "{}"):
        (tmp_path / "config.json").write_text(content)
        assert str(tmp_path / "config.json") in refused(str(tmp_path))
    (tmp_path / "rows.jsonl").touch()
    assert "is a file, but not .gguf" in refused(str(tmp_path / "rows.jsonl"))


def test_types_that_cannot_be_trained_are_refused(tmp_path: Path) -> None:
    assert "a newer version may" in refused(folder(tmp_path, model_type="llama9"))
    own_code = folder(tmp_path, model_type="llama9", auto_map={"AutoConfig": "x.Y"})
    assert "code of its own, which is not run" in refused(own_code)
    assert "no causal language model" in refused(folder(tmp_path, model_type="t5"))
    quantised = folder(tmp_path, quantization_config={"quant_method": "awq"})
    assert "quantised (awq)" in refused(quantised)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"quantization_config": "awq"}, "quantization_config in .* is not an object"),
        ({"model_type": "qwen3_5", "text_config": [1]}, "text_config in .* is not an object"),
        ({"num_hidden_layers": 0}, "sizes that no model has: num_hidden_layers is 0"),
        ({"num_attention_heads": "four", "head_dim": None}, "type 'llama'"),
    ],
)
def test_a_damaged_configuration_is_named(tmp_path: Path, changed: dict[str, Any], said: str) -> None:
    assert re.search(said, refused(folder(tmp_path, **changed)))


def test_missing_numbers_are_those_of_transformers(tmp_path: Path) -> None:
    content = {name: LLAMA[name] for name in ("model_type", "hidden_size", "num_attention_heads")}
    (tmp_path / "config.json").write_text(json.dumps(content))
    size = read_architecture(str(tmp_path))
    assert (size.vocab_size, size.num_hidden_layers, size.head_dim) == (32000, 32, 12)


def test_sizes_that_differ_from_the_base_are_named(tmp_path: Path) -> None:
    typed = {**LLAMA, "source": "typed", "num_hidden_layers": 5}
    model = {"base": folder(tmp_path), "architecture": typed}
    _, plan = plan_recipe("tiny-cpu", [f"model={json.dumps(model)}"])
    assert plan.refused == [
        f"model.architecture.num_hidden_layers is 5, but {tmp_path} has 4. Leave out model.architecture: the "
        "sizes are then read from the base"
    ]


def test_attention_that_the_type_cannot_use_is_refused(tmp_path: Path) -> None:
    base = folder(tmp_path, model_type="gpt_oss", num_local_experts=4, attention_bias=True)
    _, plan = plan_recipe("tiny-cpu", [f"model={{base: '{base}'}}"])
    assert any("gpt-oss's attention sinks" in reason for reason in plan.refused)
    _, plan = plan_recipe("tiny-cpu", [f"model={{base: '{base}'}}", "training.attention=eager"])
    assert plan.refused == []
    lora = ["lora={dropout: 0.1}", "training.optimizer=adamw", "training.attention=eager"]
    _, plan = plan_recipe("tiny-cpu", [f"model={{base: '{base}'}}", *lora])
    assert any("lora.dropout does not work on fused experts" in reason for reason in plan.refused)


@pytest.mark.parametrize(
    ("there", "advice"),
    [
        ((), r"has no weights \(\*.safetensors\)$"),
        (("pytorch_model.bin",), "but pytorch_model.bin: convert them with transformers"),
        (("tiny.gguf",), "a GGUF file is named itself, as in model.base=.*tiny.gguf"),
    ],
)
def test_a_base_without_usable_weights_is_refused(
    tmp_path: Path, there: tuple[str, ...], advice: str
) -> None:
    base = folder(tmp_path / "base")
    for name in there:
        (tmp_path / "base" / name).touch()
    data = write_rows(tmp_path / "train.jsonl", rows(1))
    with pytest.raises(WrongUseError, match=advice):
        begin("tiny-cpu", [data], None, [f"model={{base: '{base}'}}"], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_turns_must_end_with_a_special_token(tmp_path: Path) -> None:
    template = (
        "{% for m in messages %}{{ m.content or m.tool_calls[0].function.arguments }}{% endfor %}{# tools #}"
    )
    tokenizer = save_tokenizer(tmp_path / "tokenizer", template)
    data = write_rows(tmp_path / "train.jsonl", rows(1))
    with pytest.raises(WrongUseError, match="would not learn to stop"):
        begin("tiny-cpu", [data], str(tokenizer), (), tmp_path / "out")


class Hub(BaseHTTPRequestHandler):
    """Answers as the Hub does for models without access."""

    def do_HEAD(self) -> None:
        status, code = {"gated": (403, "GatedRepo"), "missing": (404, "RepoNotFound")}.get(
            self.path.split("/")[1], (401, "")
        )
        self.send_response(status)
        self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_HEAD  # noqa: N815

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def hub() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_models_of_the_hub_without_access_are_refused(tmp_path: Path, hub: str) -> None:
    code = (
        "import sys; from mcp_bench.trainer.architectures.base_config import read_config\n"
        "for name in sys.argv[1:]:\n"
        "    try: read_config(name)\n"
        "    except Exception as error: print(type(error).__name__, error)\n"
    )
    environment = {**os.environ, "HF_ENDPOINT": hub, "HF_HOME": str(tmp_path)}

    def answers(*names: str, **more: str) -> list[str]:
        command = [sys.executable, "-c", code, *names]
        done = subprocess.run(
            command, env=environment | more, capture_output=True, text=True, timeout=60, check=True
        )
        return done.stdout.splitlines()

    gated, missing, private, invalid = answers("gated/model", "missing/model", "private/model", "a b/c")
    assert gated == (
        "UnusableBaseError model.base: gated/model is gated: ask for access at "
        "https://huggingface.co/gated/model, then log in with `hf auth login`, or set HF_TOKEN"
    )
    assert "no such model on the Hub" in missing
    assert "log in with `hf auth login`" in private
    assert "no name of the Hub" in invalid
    [offline] = answers("gated/model", HF_HUB_OFFLINE="1")
    assert "the Hub cannot be reached" in offline


def test_a_hub_that_does_not_answer_is_asked_once(tmp_path: Path) -> None:
    code = "from mcp_bench.trainer.tokenizer import load_tokenizer; load_tokenizer('some/model')"
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{closed.getsockname()[1]}"
        environment = {**os.environ, "HF_ENDPOINT": endpoint, "HF_HOME": str(tmp_path)}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert "WrongUseError: no tokenizer in 'some/model'" in done.stderr
    assert "the Hub cannot be reached" in done.stderr
    assert "Retrying" not in done.stderr
