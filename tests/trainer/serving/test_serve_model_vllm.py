"""Serving with vLLM from a separate environment: `make test-vllm`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from openai import OpenAI

from mcp_bench.trainer.loop.folder import LoopFolder
from mcp_bench.trainer.serving import serve
from mcp_bench.trainer.trial.measuring import served, tasks
from mcp_bench.trainer.trial.recordings import record
from mcp_bench.trainer.trial.scores import scores_by_group
from tests.support.training.byte_tokenizers import CHATML
from tests.support.training.tiny_checkpoints import (
    QUESTION,
    QWEN3_CALL,
    TOOLS,
    learn,
    make_tokenizer,
    qwen3,
    save,
)

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif("MCP_BENCH_VLLM" not in os.environ, reason="make test-vllm"),
    pytest.mark.component,
]


def test_vllm_reads_a_tool_call_and_ends(tmp_path: Path) -> None:
    tokenizer = make_tokenizer(CHATML)
    model = qwen3(len(tokenizer))
    assert learn(model, tokenizer, [(QUESTION, QWEN3_CALL)], steps=300) < 0.1
    folder = save(model, tokenizer, tmp_path / "tuned")
    with serve(folder, engine="vllm", max_model_len=2048, start_timeout=900) as server:
        untyped: Any = OpenAI(base_url=server.base_url, api_key=server.key, max_retries=0).chat.completions
        answer = untyped.create(model="tuned", messages=QUESTION, tools=TOOLS).choices[0]
        call = answer.message.tool_calls[0].function
        assert (call.name, json.loads(call.arguments)) == ("find", {"name": "Ada"})
    assert not Path(f"/proc/{server.pid}").exists()


@pytest.mark.skipif("MCP_BENCH_DEMO" not in os.environ, reason="make test-vllm")
def test_the_demo_model_scores_the_same_on_vllm(tmp_path: Path) -> None:
    """The same tasks with the same wire and grader give the same scores on both engines."""
    folder = LoopFolder(Path(os.environ["MCP_BENCH_DEMO"]))
    settings, best = folder.read(), folder.history()["best"]
    on_vllm = settings.model_copy(update={"engine": "vllm"})
    with served(Path(best["model"]), "on-vllm", tmp_path / "port", on_vllm) as endpoint:
        arguments = [*endpoint, *tasks(settings.benchmark, settings.dev, settings.jobs)]
        again = scores_by_group(record(tmp_path / "begun", arguments), settings.train)
    for group, before in best["dev"]["groups"].items():
        after = again["groups"][group]
        assert (after["episodes"], after["invalid"]) == (before["episodes"], 0)
        for engine, found in (("torch", before), ("vllm", after)):
            print(group, engine, {name: found[name] for name in ("tasks", "partial", "partial_ci", "strict")})
        # greedy decoding of one model: engines differ only where two tokens are equally likely
        assert abs(after["partial"] - before["partial"]) <= 0.05
