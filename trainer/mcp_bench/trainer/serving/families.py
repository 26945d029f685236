"""In which form a model writes its tool calls and thoughts, and what vLLM calls the parsers for it.

What a model was trained to write is what its chat template renders, so the template decides: the same
`model_type` may write either form (Qwen3 JSON, Qwen3-Coder tags).
"""

from __future__ import annotations

from dataclasses import dataclass

from mcp_bench.servers.errors import WrongUseError
from mcp_bench.trainer.serving.checkpoint import Checkpoint

JSON_CALLS = "hermes"
"""`<tool_call>{"name": ..., "arguments": {...}}</tool_call>`: Qwen2.5, Qwen3."""
TAGGED_CALLS = "qwen3_coder"
"""`<tool_call><function=NAME><parameter=KEY>VALUE</parameter>...`: Qwen3.5, Qwen3-Coder."""


@dataclass(frozen=True)
class Parsers:
    """Names as vLLM knows them (`--tool-call-parser`, `--reasoning-parser`)."""

    tool_calls: str
    reasoning: str | None


def choose_parsers(checkpoint: Checkpoint, tool_calls: str | None, reasoning: str | None) -> Parsers:
    """Return the parsers of a model's family; what is named by hand goes first.

    Raises:
        WrongUseError: the family is not known.
    """
    template, qwen = checkpoint.chat_template, checkpoint.model_type.startswith("qwen")
    if tool_calls is None:
        if qwen and "<function=" in template:
            tool_calls = TAGGED_CALLS
        elif qwen:
            tool_calls = JSON_CALLS
        else:
            raise WrongUseError(
                f"nothing is known of how a model of type {checkpoint.model_type!r} writes its tool calls: "
                f"name the parser with --tool-call-parser ({JSON_CALLS} for JSON in <tool_call>, "
                f"{TAGGED_CALLS} for <function=...>, or any other that vLLM has)"
            )
    if reasoning is None and qwen and "<think>" in template:
        reasoning = "qwen3"
    return Parsers(tool_calls, None if reasoning == "none" else reasoning)
