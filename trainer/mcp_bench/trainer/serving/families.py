"""Choose the parsers for a model's tool calls and reasoning, by vLLM's names.

The chat template decides, since models write calls in the form that it renders. The same `model_type` can use
either form (Qwen3 writes JSON, Qwen3-Coder tags).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from mcp_bench.servers.errors import WrongUseError
from mcp_bench.trainer.chat.signatures import knows_tools, signatures_template
from mcp_bench.trainer.serving.checkpoint import Checkpoint

FORMS = (
    ("qwen3_coder", ("<function=",)),
    ("glm45", ("<arg_key>",)),
    ("openai", ("<|channel|>", "<|message|>")),
    ("mistral", ("[TOOL_CALLS]",)),
    ("llama3_json", ("<|python_tag|>",)),
    ("llama3_json", ('"parameters": dictionary of argument name',)),
    ("hermes", ("<tool_call>",)),
)
"""Parsers, each with what a template contains that renders calls in its form. The first match decides."""
REASONING = (("qwen", "qwen3"), ("glm", "glm45"), ("deepseek", "deepseek_r1"))
"""Beginnings of `model_type`, with the parser of a family whose template has `<think>`."""


@dataclass(frozen=True)
class Parsers:
    """Parser names of vLLM (`--tool-call-parser`, `--reasoning-parser`)."""

    tool_calls: str
    reasoning: str | None


def with_tools(checkpoint: Checkpoint) -> Checkpoint:
    """Return a checkpoint with our chat template if its own knows no tools: training uses the same one.

    Such a base would never see its tools. A model that was trained with our template has it already.
    """
    if knows_tools(checkpoint.chat_template):
        return checkpoint
    from mcp_bench.trainer.tokenizer import load_tokenizer

    ours = signatures_template(load_tokenizer(str(checkpoint.folder)))
    return checkpoint if ours is None else replace(checkpoint, chat_template=ours, own_template=False)


def choose_parsers(checkpoint: Checkpoint, tool_calls: str | None, reasoning: str | None) -> Parsers:
    """Return the given parsers, with those that fit the chat template as defaults.

    Raises:
        WrongUseError: the template shows no known form of calls, and no tool call parser is given.
    """
    template, kind = checkpoint.chat_template, checkpoint.model_type
    if tool_calls is None:
        tool_calls = next((name for name, marks in FORMS if all(mark in template for mark in marks)), None)
    if tool_calls is None and kind.startswith("qwen"):
        tool_calls = "hermes"
    if tool_calls is None:
        known = ", ".join(dict.fromkeys(name for name, _ in FORMS))
        raise WrongUseError(
            f"the chat template of {checkpoint.folder} (type {kind!r}) shows no known form of tool calls: "
            f"choose a parser (tool_call_parser: {known}, or with vLLM any other that it has)"
        )
    if reasoning is None and tool_calls == "openai":
        reasoning = "openai_gptoss"
    elif reasoning is None and "<think>" in template:
        reasoning = next((name for begin, name in REASONING if kind.startswith(begin)), None)
    return Parsers(tool_calls, None if reasoning == "none" else reasoning)
