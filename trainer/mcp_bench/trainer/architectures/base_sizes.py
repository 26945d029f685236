"""The sizes of a base: from its configuration if the type has formulas, else counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mcp_bench.trainer.architectures.architecture import Architecture
from mcp_bench.trainer.architectures.base_config import CONFIG, is_gguf, read_config, refuse_quantised
from mcp_bench.trainer.architectures.counted import count, gguf_config, own_config
from mcp_bench.trainer.architectures.layers import FAMILIES
from mcp_bench.trainer.architectures.sizes import EXPERT_COUNTS

TEXT_PARTS = {"qwen3_5": "qwen3_5_text"}
"""Types of which transformers' AutoModelForCausalLM loads the text part alone."""

HEADS_DIVIDE = ("llama", "mistral", "qwen2", "qwen3_moe", "glm4_moe")
"""Types whose `head_dim` is by default `hidden_size / num_attention_heads`."""

ALWAYS_WRITTEN = ("vocab_size", "tie_word_embeddings", "max_position_embeddings")
"""Without one of these, the file relies on defaults that only transformers knows."""


def read_architecture(base: str) -> Architecture:
    """Return the sizes of a base.

    Known types are read from `config.json` in milliseconds. Others are counted on torch's meta device.

    Raises:
        UnusableBaseError: there is no such base, no access, no network, or its type cannot be trained.
    """
    if is_gguf(base):
        config = gguf_config(Path(base))
        return _known(config.to_dict(), base) or count(config, base)
    content = read_config(base)
    refuse_quantised(content, base)
    if (known := _known(content, base)) is not None:
        return known
    config = own_config(content, base)
    return _known(config.to_dict(), base) or count(config, base)


def _known(content: dict[str, Any], base: str) -> Architecture | None:
    """Return the sizes in a configuration of a known type, or None if some are missing in it."""
    kind = content["model_type"]
    if kind in TEXT_PARTS:
        outer, content = content, content.get("text_config") or {}
        content = {"tie_word_embeddings": outer.get("tie_word_embeddings", False), **content}
        content["model_type"] = kind = TEXT_PARTS[kind]
    if kind not in FAMILIES or any(name not in content for name in ALWAYS_WRITTEN):
        return None
    names = {*Architecture.model_fields, *(EXPERT_COUNTS.values() if kind in EXPERT_COUNTS else ())}
    found = {name: content[name] for name in names if content.get(name) is not None}
    heads = found.get("num_attention_heads")
    found.setdefault("num_key_value_heads", heads)
    if kind in ("qwen2", "qwen3", "qwen3_moe") and not content.get("use_sliding_window"):
        found.pop("sliding_window", None)
    try:
        if "head_dim" not in found and kind in HEADS_DIVIDE and heads:
            found["head_dim"] = found.get("hidden_size", 0) // heads
        return Architecture(**{**found, "source": f"{CONFIG} of {base}", "model_type": kind})
    except (TypeError, ValueError):
        return None  # transformers' defaults fill in what is missing, and its own checks name what is wrong
