"""The engines' command lines and environments."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mcp_bench.servers.errors import WrongUseError
from mcp_bench.trainer.serving.engines import Capacity, Engine, Listening, command, environment
from mcp_bench.trainer.serving.families import Parsers
from tests.trainer.serving.test_serve_model_checks import qwen

pytestmark = pytest.mark.component


def test_the_command_line_of_vllm() -> None:
    engine, where = Engine("vllm", Path("/v/bin/vllm")), Listening("127.0.0.1", 8000, "tuned")
    argv = command(
        engine, qwen("<tool_call>"), where, Parsers("hermes", "qwen3"), Capacity(8, 2, 65536), ("--x",)
    )
    expected = " ".join(argv)
    assert expected.startswith(
        "/v/bin/vllm serve /models/m --host 127.0.0.1 --port 8000 --served-model-name tuned "
    )
    for part in (
        "--enable-auto-tool-choice --tool-call-parser hermes --reasoning-parser qwen3",
        "--tensor-parallel-size 8 --data-parallel-size 2 --max-model-len 65536",
    ):
        assert part in expected
    assert argv[-1] == "--x"


@pytest.mark.parametrize("accelerator", [False, True])
def test_vllm_keeps_32_bits_on_a_cpu(accelerator: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_bench.trainer.serving.engines.has_accelerator", lambda: accelerator)
    engine, where = Engine("vllm", Path("/v/bin/vllm")), Listening("127.0.0.1", 8000, "tuned")
    for dtype in ("float32", "bfloat16", None):
        checkpoint = replace(qwen("<tool_call>"), dtype=dtype)
        argv = command(engine, checkpoint, where, Parsers("hermes", None), Capacity())
        kept = " ".join(argv).endswith("--dtype float32")
        assert kept == (dtype == "float32" and not accelerator)


def test_an_engine_refuses_what_it_cannot_do() -> None:
    where = Listening("127.0.0.1", 8000, "tuned")
    ours, vllm = Engine("torch"), Engine("vllm", Path("/v/bin/vllm"))
    hermes = Parsers("hermes", None)
    for engine, parsers, capacity, expected in (
        (ours, hermes, Capacity(tensor_parallel=2), "data_parallel need vLLM"),
        (ours, Parsers("pythonic", None), Capacity(), "'pythonic'.*use the engine vllm"),
        (ours, Parsers("hermse", None), Capacity(), "did you mean hermes"),
        (ours, Parsers("hermes", "granite"), Capacity(), "'granite': it has qwen3"),
        (vllm, hermes, Capacity(constrain_calls=True), "need the engine torch"),
        (vllm, hermes, Capacity(device="cpu"), "need the engine torch"),
    ):
        with pytest.raises(WrongUseError, match=expected):
            command(engine, qwen(""), where, parsers, capacity)


def test_an_engine_gets_no_credentials(tmp_path: Path) -> None:
    ours = {
        "PATH": "/bin",
        "HF_TOKEN": "x",
        "OPENAI_API_KEY": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
        "MCP_BENCH_HOME": "x",
    }
    given = environment(Engine("vllm", Path("/v")), qwen(""), ours, "k", tmp_path)
    assert {"HF_TOKEN", "OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "MCP_BENCH_HOME"}.isdisjoint(given)
    assert given["PATH"] == "/bin"
    assert given["HF_HUB_OFFLINE"] == "1"


def test_an_engine_does_not_join_the_trainers_processes(tmp_path: Path) -> None:
    """With TORCHELASTIC_USE_AGENT_STORE, torch looks for torchrun's store instead of opening one."""
    group = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_USE_AGENT_STORE")
    ours = {**dict.fromkeys(group, "1"), "CUDA_VISIBLE_DEVICES": "6,7"}
    given = environment(Engine("vllm", Path("/v")), qwen(""), ours, "k", tmp_path)
    assert given["CUDA_VISIBLE_DEVICES"] == "6,7" and set(group).isdisjoint(given)
