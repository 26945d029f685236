"""Choose the parsers for a model's tool calls and reasoning, by vLLM's names.

The chat template decides, since models write calls in the form that it renders. The same `model_type` can use
either form (Qwen3 writes JSON, Qwen3-Coder tags).
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
    """Parser names of vLLM (`--tool-call-parser`, `--reasoning-parser`)."""

    tool_calls: str
    reasoning: str | None


def choose_parsers(checkpoint: Checkpoint, tool_calls: str | None, reasoning: str | None) -> Parsers:
    """Return the given parsers, with those of the model's family as defaults.

    Raises:
        WrongUseError: the family is unknown and no tool call parser is given.
    """
    template, qwen = checkpoint.chat_template, checkpoint.model_type.startswith("qwen")
    if tool_calls is None:
        if qwen and "<function=" in template:
            tool_calls = TAGGED_CALLS
        elif qwen:
            tool_calls = JSON_CALLS
        else:
            raise WrongUseError(
                f"the tool call format of models of type {checkpoint.model_type!r} is unknown: choose a "
                f"parser with --tool-call-parser ({JSON_CALLS} for JSON in <tool_call>, {TAGGED_CALLS} for "
                "<function=...>, or any other that vLLM supports)"
            )
    if reasoning is None and qwen and "<think>" in template:
        reasoning = "qwen3"
    return Parsers(tool_calls, None if reasoning == "none" else reasoning)
