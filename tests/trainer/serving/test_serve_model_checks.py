"""Checks before an engine starts, and the engines' command lines."""

from __future__ import annotations

import json
import socket
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from starlette.applications import Starlette
from starlette.testclient import TestClient

from mcp_bench.servers.errors import BenchError, MissingDependencyError, WrongUseError
from mcp_bench.trainer.cli.serve_model import serve_model
from mcp_bench.trainer.serving import serve as serving
from mcp_bench.trainer.serving.adapter import merge_adapter
from mcp_bench.trainer.serving.checkpoint import Checkpoint, read_checkpoint
from mcp_bench.trainer.serving.engines import Capacity, Engine, Listening, command, environment, find_engine
from mcp_bench.trainer.serving.families import Parsers, choose_parsers, with_tools
from mcp_bench.trainer.serving.require_key import VARIABLE, RequireKey
from mcp_bench.trainer.serving.server import claim_port
from mcp_bench.trainer.trial.settings import TrialSettings
from tests.support.training.byte_tokenizers import CHATML
from tests.support.training.tiny_checkpoints import make_tokenizer, qwen3, save
from tests.support.training.tiny_llama import tiny_llama

pytestmark = pytest.mark.component

NO_TENSORS = (2).to_bytes(8, "little") + b"{}"
"""A whole file of safetensors: the length of its header, and the header."""


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Make the files of a checkpoint, with dummy content."""
    folder = tmp_path / "checkpoint-7"
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "qwen3"}')
    (folder / "model.safetensors").write_bytes(NO_TENSORS)
    (folder / "tokenizer.json").write_text("{}")
    (folder / "chat_template.jinja").write_text("{{ tools }}{{ messages }}")
    return folder


def serve(*arguments: object) -> Result:
    return CliRunner().invoke(serve_model, [str(argument) for argument in arguments])


def test_a_whole_checkpoint_is_read(checkpoint: Path) -> None:
    assert read_checkpoint(checkpoint) == Checkpoint(
        checkpoint, "qwen3", "{{ tools }}{{ messages }}", len(NO_TENSORS)
    )


@pytest.mark.parametrize(
    ("without", "expected"),
    [
        ("config.json", "has no config.json"),
        ("model.safetensors", "has no weights"),
        ("tokenizer.json", "has no tokenizer"),
        ("chat_template.jinja", "has no chat template"),
    ],
)
def test_a_missing_file_is_named(checkpoint: Path, without: str, expected: str) -> None:
    (checkpoint / without).unlink()
    result = serve(checkpoint, "--engine", "torch")
    assert isinstance(result.exception, WrongUseError)
    assert expected in str(result.exception)
    assert str(checkpoint) in str(result.exception)


@pytest.mark.parametrize("sharded", [False, True])
@pytest.mark.parametrize("left", [0, 9])
def test_weights_that_were_not_copied_to_their_end_are_named(
    checkpoint: Path, sharded: bool, left: int
) -> None:
    weights = checkpoint / "model.safetensors"
    weights.write_bytes(NO_TENSORS[:left])
    if sharded:
        weights = weights.rename(checkpoint / "model-1.safetensors")
        index = json.dumps({"weight_map": {"a": weights.name}})
        (checkpoint / "model.safetensors.index.json").write_text(index)
    with pytest.raises(WrongUseError, match=rf"{weights} is damaged \(.*\): copy it again"):
        read_checkpoint(checkpoint)


def test_a_folder_of_checkpoints_lists_them(checkpoint: Path) -> None:
    with pytest.raises(WrongUseError, match="Checkpoints in it: checkpoint-7"):
        read_checkpoint(checkpoint.parent)
    with pytest.raises(WrongUseError, match="no folder"):
        read_checkpoint(checkpoint / "nowhere")


def test_missing_shards_are_named(checkpoint: Path) -> None:
    index = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    (checkpoint / "model.safetensors.index.json").write_text(json.dumps(index))
    shard = (checkpoint / "model.safetensors").rename(checkpoint / "model-1.safetensors")
    with pytest.raises(WrongUseError, match=r"lacks weights .*: model-2\.safetensors$"):
        read_checkpoint(checkpoint)
    # on the Hub, some models are there twice, and only one form is fetched
    (checkpoint / "model.safetensors.index.json").unlink()
    shard.rename(checkpoint / "model.safetensors")
    (checkpoint / "pytorch_model.bin.index.json").write_text('{"weight_map": {"a": "pytorch_model-1.bin"}}')
    assert read_checkpoint(checkpoint).folder == checkpoint.resolve()


@pytest.mark.parametrize(
    "config",
    [
        {"chat_template": "T"},
        {"chat_template": [{"name": "rag", "template": "R"}, {"name": "default", "template": "T"}]},
        {"chat_template": [{"name": "tool_use", "template": "T"}, {"name": "default", "template": "D"}]},
    ],
)
def test_templates_of_older_checkpoints_are_found(checkpoint: Path, config: dict[str, Any]) -> None:
    (checkpoint / "chat_template.jinja").unlink()
    (checkpoint / "tokenizer_config.json").write_text(json.dumps(config))
    assert read_checkpoint(checkpoint).chat_template == "T"


def test_of_several_templates_the_one_for_tools_counts(checkpoint: Path) -> None:
    """Training chooses it, too."""
    (checkpoint / "additional_chat_templates").mkdir()
    (checkpoint / "additional_chat_templates" / "tool_use.jinja").write_text("{{ tools }}: T")
    assert read_checkpoint(checkpoint).chat_template == "{{ tools }}: T"


def test_a_broken_configuration_is_named(checkpoint: Path) -> None:
    (checkpoint / "config.json").write_text("{")
    with pytest.raises(WrongUseError, match=r"cannot read .*config\.json"):
        read_checkpoint(checkpoint)


def test_an_adapter_without_weights_or_base_is_refused(tmp_path: Path) -> None:
    config = tmp_path / "adapter_config.json"
    config.write_text('{"base_model_name_or_path": "/nowhere/base"}')
    result = serve(tmp_path, "--engine", "torch")
    assert "no weights (adapter_model.safetensors)" in str(result.exception)
    (tmp_path / "adapter_model.safetensors").write_bytes(b"")
    result = serve(tmp_path, "--engine", "torch")
    assert "is not at /nowhere/base" in str(result.exception)


def test_an_adapter_brings_tokenizer_and_template(tmp_path: Path) -> None:
    """Base models often have no template, and one that was made for training alone has no tokenizer."""
    from peft import LoraConfig, get_peft_model

    base, adapter = tmp_path / "base", tmp_path / "adapter"
    tokenizer = make_tokenizer(CHATML)
    model = tiny_llama(len(tokenizer))
    model.save_pretrained(base)
    model.name_or_path = str(base)
    get_peft_model(model, LoraConfig(r=2, target_modules=["q_proj"])).save_pretrained(str(adapter))
    with pytest.raises(WrongUseError, match=f"cannot read a tokenizer from {base}: .*into {adapter}"):
        merge_adapter(adapter)
    assert not (adapter / "merged").exists()
    tokenizer.save_pretrained(adapter)
    assert read_checkpoint(merge_adapter(adapter)).chat_template == CHATML


def test_a_port_in_use_is_refused(checkpoint: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = serve(checkpoint, "--engine", "torch", "--port", taken.getsockname()[1])
    assert isinstance(result.exception, WrongUseError)
    assert "Port 0 picks a free one" in str(result.exception)
    assert claim_port("127.0.0.1", 0) > 0


@pytest.mark.parametrize("key", ["secret\n", " secret", "\u00fc"])
def test_a_key_that_no_header_can_have_is_refused(
    checkpoint: Path, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, key)
    result = serve(checkpoint, "--engine", "torch", "--start-timeout", "0.1")
    assert isinstance(result.exception, WrongUseError)
    assert str(result.exception).startswith(f"{VARIABLE}: a key has ASCII letters")
    assert key.strip() not in str(result.exception)


def test_every_request_to_an_engine_shows_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the path: vLLM's own `--api-key` leaves some open that generate text."""
    monkeypatch.setenv(VARIABLE, "right")
    inner = Starlette()
    inner.add_middleware(RequireKey)
    client = TestClient(inner)
    for path in ("/v1/models", "/invocations", "/health", "/"):
        for headers in (
            {},
            {"Authorization": "Bearer wrong"},
            {"Authorization": "right"},
            {"x-api-key": "wrong"},
            {"x-api-key": "Bearer right"},
            {"Authorization": "Bearer wrong", "x-api-key": ""},
        ):
            assert client.post(path, headers=headers).status_code == 401
        for shown in ({"Authorization": "Bearer right"}, {"x-api-key": "right"}):
            assert client.get(path, headers=shown).status_code == 404
    wrong = client.post("/v1/messages").json()
    assert (wrong["type"], wrong["error"]["type"]) == ("error", "authentication_error")
    assert client.post("/v1/responses").json()["error"]["code"] == "invalid_api_key"


def test_the_key_is_in_no_command_line(tmp_path: Path) -> None:
    for engine in (Engine("vllm", Path("/v")), Engine("torch")):
        given = environment(engine, qwen(""), {}, "the-key", tmp_path)
        argv = command(engine, qwen(""), Listening("127.0.0.1", 1, "m"), Parsers("hermes", None), Capacity())
        assert given[VARIABLE] == "the-key" and "the-key" not in " ".join(argv)
    module = argv_of_vllm(tmp_path)
    done = subprocess.run(  # as vLLM imports it, in an environment without this package
        [sys.executable, "-S", "-c", f"import {module[0]} as m; print(m.{module[1]}.__name__)"],
        env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "RequireKey\n"


def argv_of_vllm(modules: Path) -> list[str]:
    """Return the module and the class that vLLM is to put in front of its app."""
    vllm = Engine("vllm", Path("/v"))
    environment(vllm, qwen(""), {}, "k", modules)
    argv = command(vllm, qwen(""), Listening("127.0.0.1", 1, "m"), Parsers("hermes", None), Capacity())
    return argv[argv.index("--middleware") + 1].split(".")


@pytest.mark.parametrize("name", ["../up", "a b", "-x", "a//b", "a@main", ""])
def test_invalid_model_names_are_refused(checkpoint: Path, name: str) -> None:
    named = checkpoint.rename(checkpoint.parent / "a@main") if not name else checkpoint
    result = serve(named, "--engine", "torch", *(["--model-name", name] if name else []))
    assert isinstance(result.exception, WrongUseError)
    assert "(model_name)" in str(result.exception)


def test_a_wait_that_was_too_short_names_its_setting(checkpoint: Path) -> None:
    result = serve(checkpoint, "--engine", "torch", "--start-timeout", "0.01")
    assert "did not answer within 0.01 seconds (start_timeout)" in str(result.exception)


def test_a_second_checkpoint_is_refused(checkpoint: Path) -> None:
    assert "give one checkpoint" in str(serve(checkpoint, checkpoint).exception)


def qwen(template: str, model_type: str = "qwen3") -> Checkpoint:
    return Checkpoint(Path("/models/m"), model_type, template)


def test_the_template_selects_the_parsers() -> None:
    assert choose_parsers(qwen("<tool_call>"), None, None) == Parsers("hermes", None)
    assert choose_parsers(qwen("<think> <tool_call>"), None, None) == Parsers("hermes", "qwen3")
    assert (
        choose_parsers(qwen("<tool_call>\n<function=", "qwen3_moe"), None, None).tool_calls == "qwen3_coder"
    )
    assert choose_parsers(qwen("<think> <tool_call>"), None, "none") == Parsers("hermes", None)
    assert choose_parsers(qwen("[TOOL]", "mistral"), "mistral", None) == Parsers("mistral", None)
    for template, kind, parsers in (
        ("[TOOL_CALLS]", "mistral", Parsers("mistral", None)),
        ("<tool_call>", "llama", Parsers("hermes", None)),
        ("<|python_tag|>", "llama", Parsers("llama3_json", None)),
        ("<|channel|> <|message|>", "gpt_oss", Parsers("openai", "openai_gptoss")),
        ("<think> <tool_call> <arg_key>", "glm4_moe", Parsers("glm45", "glm45")),
    ):
        assert choose_parsers(qwen(template, kind), None, None) == parsers
    with pytest.raises(WrongUseError, match=r"'gemma'.*\(tool_call_parser: "):
        choose_parsers(qwen("{{ messages }}", "gemma"), None, None)


def test_a_base_without_tools_gets_our_template(checkpoint: Path) -> None:
    plain = "{% for message in messages %}<|im_start|>{{ message.role }}{{ message.content }}<|im_end|>{% endfor %}"
    make_tokenizer(plain).save_pretrained(checkpoint)
    found = with_tools(read_checkpoint(checkpoint))
    assert not found.own_template and "tools" in found.chat_template and "<|im_start|>" in found.chat_template
    assert choose_parsers(found, None, None).tool_calls == "hermes"
    make_tokenizer(CHATML).save_pretrained(checkpoint)
    assert with_tools(read_checkpoint(checkpoint)).own_template


def test_vllm_is_found_by_option_variable_or_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    assert find_engine("auto", None, {"PATH": ""}) == Engine("torch")
    with pytest.raises(MissingDependencyError, match="pip install vllm"):
        find_engine("vllm", None, {"PATH": ""})
    executable = tmp_path / "env" / "bin" / "vllm"
    executable.parent.mkdir(parents=True)
    executable.write_text("#!/bin/sh\n")
    with pytest.raises(WrongUseError, match="no vllm command at"):
        find_engine("auto", str(tmp_path / "env"), {})
    executable.chmod(executable.stat().st_mode | stat.S_IXUSR)
    found = Engine("vllm", executable)
    assert find_engine("auto", str(tmp_path / "env"), {}) == found
    assert find_engine("vllm", str(executable), {}) == found
    assert find_engine("auto", None, {"MCP_BENCH_VLLM": str(tmp_path / "env")}) == found
    path = {"PATH": str(executable.parent)}
    for gpu, chosen in ((True, found), (False, Engine("torch"))):
        monkeypatch.setattr("mcp_bench.trainer.serving.engines.has_accelerator", lambda gpu=gpu: gpu)
        assert find_engine("auto", None, path) == chosen
        assert find_engine("vllm", None, path) == found
    assert find_engine("torch", None, {"MCP_BENCH_VLLM": str(executable)}) == Engine("torch")
    with pytest.raises(WrongUseError, match="drop one of them"):
        find_engine("torch", str(executable), {})


def test_constrained_calls_get_the_engine_that_can(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By default, although vLLM is installed. Named, vLLM is refused before a loop records its teacher."""
    executable = tmp_path / "vllm"
    executable.write_text("#!/bin/sh\nexit 9\n")
    executable.chmod(0o755)
    monkeypatch.setenv("MCP_BENCH_VLLM", str(executable))
    tokenizer = make_tokenizer(CHATML)
    folder = save(qwen3(len(tokenizer)), tokenizer, tmp_path / "model")
    with serving(folder, constrain_calls=True) as server:
        assert server.engine == "torch"
    choices = {"recipe": "tiny-cpu", "benchmark": "saasworld", "dev": ["t"]}
    with pytest.raises(WrongUseError, match="--constrain-calls needs --engine torch"):
        TrialSettings(**choices, engine="vllm", constrain_calls=True)


def test_a_gguf_file_takes_no_options_of_other_engines(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(b"GGUF")
    for option in (
        ("--tool-call-parser", "hermes"),
        ("--reasoning-parser", "qwen3"),
        ("--vllm", str(tmp_path)),
    ):
        done = serve(file, *option)
        assert isinstance(done.exception, WrongUseError), done.output


def test_an_unknown_engine_has_near_matches() -> None:
    with pytest.raises(WrongUseError, match="did you mean torch"):
        find_engine("torhc", None, {})


@pytest.mark.parametrize(
    ("settings", "greedy"),
    [
        (None, True),
        ({}, True),
        ({"do_sample": False}, True),
        ({"do_sample": True, "temperature": 0.6}, False),
    ],
)
def test_vllm_is_greedy_if_the_model_is(
    checkpoint: Path, settings: dict[str, Any] | None, greedy: bool
) -> None:
    if settings is not None:
        (checkpoint / "generation_config.json").write_text(json.dumps(settings))
    engine, where = Engine("vllm", Path("/v/bin/vllm")), Listening("127.0.0.1", 8000, "tuned")
    argv = command(engine, read_checkpoint(checkpoint), where, Parsers("hermes", None), Capacity())
    assert ("--override-generation-config" in argv) == greedy


def test_an_unwritable_home_is_named(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MCP_BENCH_HOME", str(tmp_path / "file"))
    result = serve(checkpoint, "--engine", "torch")
    assert isinstance(result.exception, BenchError)
    assert "MCP_BENCH_HOME" in str(result.exception)
