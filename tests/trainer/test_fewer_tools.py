"""Rows with fewer tools: what a row calls stays, and the rest is drawn anew for each row."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from mcp_bench.trainer.cli.train import train
from mcp_bench.trainer.fewer_tools import with_fewer_tools
from mcp_bench.trainer.rows import Row
from tests.support.training.byte_tokenizers import CHATML, byte_tokenizer

pytestmark = pytest.mark.component


def row(count: int, called: list[int]) -> dict[str, Any]:
    """Return a row with `count` tools, of which those at the indices `called` are called."""
    tools = [
        {"type": "function", "function": {"name": f"tool_{at}", "parameters": {}}} for at in range(count)
    ]
    calls = [
        {"id": str(at), "type": "function", "function": {"name": f"tool_{at}", "arguments": {}}}
        for at in called
    ]
    said = [{"role": "assistant", "tool_calls": calls}] if calls else []
    return {
        "messages": [
            {"role": "user", "content": "Do it."},
            *said,
            {"role": "assistant", "content": "Done."},
        ],
        "tools": tools,
    }


def names(tools: list[dict[str, Any]] | None) -> list[str]:
    return [tool["function"]["name"] for tool in tools or []]


@given(st.integers(0, 40), st.sets(st.integers(0, 39)), st.integers())
def test_what_is_called_stays_and_the_order_too(count: int, called: set[int], seed: int) -> None:
    wanted = [at for at in sorted(called) if at < count]
    whole = row(count, wanted)
    fewer = names(with_fewer_tools(Row("f:1", whole["messages"], whole["tools"]), str(seed)).tools)
    assert {f"tool_{at}" for at in wanted} <= set(fewer)
    assert fewer == [name for name in names(whole["tools"]) if name in fewer]
    assert len(fewer) >= min(1, count)


def test_lists_of_all_lengths_occur_and_short_ones_often() -> None:
    whole = row(32, [3, 20])
    given_row = Row("f:1", whole["messages"], whole["tools"])
    drawn = [names(with_fewer_tools(given_row, str(seed)).tools) for seed in range(400)]
    lengths = [len(tools) for tools in drawn]
    assert min(lengths) == 2
    assert max(lengths) > 28
    assert len(set(lengths)) > 25
    assert sum(length <= 8 for length in lengths) > 150  # half of a log-uniform draw from 2 to 32
    assert len({name for tools in drawn for name in tools}) == 32
    assert drawn == [names(with_fewer_tools(given_row, str(seed)).tools) for seed in range(400)]


def test_a_plan_counts_the_tokens_of_sampled_tools(tmp_path: Path) -> None:
    byte_tokenizer(CHATML).save_pretrained(tmp_path / "tokenizer")
    data = tmp_path / "train.jsonl"
    data.write_text("".join(json.dumps(row(12, [at])) + "\n" for at in range(12)))
    arguments = [
        "plan",
        "tiny-cpu",
        "--data",
        str(data),
        "--tokenizer",
        str(tmp_path / "tokenizer"),
        "--json",
    ]

    def tokens(*overrides: str) -> int:
        result = CliRunner().invoke(train, [*arguments, *overrides], catch_exceptions=False)
        found: int = json.loads(result.stdout)["data"]["tokens"]
        return found

    sampled = tokens("--set", "data.tools=sampled")
    assert sampled < 0.8 * tokens()
    assert sampled == tokens("--set", "data.tools=sampled")
    assert sampled != tokens("--set", "data.tools=sampled", "--set", "training.seed=1")
