"""The same by vLLM, from an environment of its own: `make test-vllm`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from openai import OpenAI
from tiny_checkpoints import QUESTION, QWEN3_CALL, TOOLS, learn, make_tokenizer, qwen3, save
from tokenizers_on_the_spot import CHATML

from mcp_bench.trainer.serving import serve

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif("MCP_BENCH_VLLM" not in os.environ, reason="make test-vllm"),
    pytest.mark.filterwarnings("default"),
]


def test_vllm_reads_a_tool_call_and_ends(tmp_path: Path) -> None:
    tokenizer = make_tokenizer(CHATML)
    model = qwen3(len(tokenizer))
    assert learn(model, tokenizer, [(QUESTION, QWEN3_CALL)], steps=300) < 0.1
    folder = save(model, tokenizer, tmp_path / "tuned")
    with serve(folder, engine="vllm", max_model_len=2048, start_timeout=900) as server:
        untyped: Any = OpenAI(base_url=server.base_url, api_key="none", max_retries=0).chat.completions
        answer = untyped.create(model="tuned", messages=QUESTION, tools=TOOLS).choices[0]
        call = answer.message.tool_calls[0].function
        assert (call.name, json.loads(call.arguments)) == ("find", {"name": "Ada"})
    assert not Path(f"/proc/{server.pid}").exists()
