"""The architectures that are read and written, and the names of their tensors in GGUF and in transformers.

The names are those of llama.cpp's `convert_hf_to_gguf.py` and of the package gguf (`constants.py`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

TOP = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
ATTENTION = ("attn_q", "attn_k", "attn_v", "attn_output")
FEED_FORWARD = ("ffn_gate", "ffn_up", "ffn_down")
"""The tensors of a layer that can have biases; all of a group have one, or none."""
NORMED = {**LAYER, "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm"}
IN_GGUF = re.compile(r"(?:blk\.(?P<number>\d+)\.)?(?P<part>\w+)\.(?P<kind>weight|bias)")
IN_TRANSFORMERS = re.compile(r"(?:model\.layers\.(?P<number>\d+)\.)?(?P<part>[\w.]+)\.(?P<kind>weight|bias)")


@dataclass(frozen=True)
class GgufArchitecture:
    """A kind of model, by its name in GGUF."""

    name: str
    model_class: str
    """The class in transformers that has these weights."""
    permuted: bool = False
    """Whether GGUF has the rows of q and k interleaved: llama.cpp rotates neighbours, transformers halves."""
    layer: Mapping[str, str] = field(default_factory=lambda: LAYER)
    """The tensors of a layer: name in GGUF to name in transformers."""


LLAMA = GgufArchitecture("llama", "LlamaForCausalLM", permuted=True)
MODEL_TYPES = {
    "llama": LLAMA,
    "mistral": LLAMA,
    "qwen2": GgufArchitecture("qwen2", "Qwen2ForCausalLM"),
    "qwen3": GgufArchitecture("qwen3", "Qwen3ForCausalLM", layer=NORMED),
}
"""What is written: `model_type` in transformers to the architecture. Of GGUF, only llama is read."""


def gguf_name(architecture: GgufArchitecture, name: str) -> str | None:
    """Return a tensor's name in GGUF, or None if the architecture has no such tensor."""
    match = IN_TRANSFORMERS.fullmatch(name)
    if match is None:
        return None
    names = TOP if match["number"] is None else architecture.layer
    part = next((ours for ours, theirs in names.items() if theirs == match["part"]), None)
    if part is None:
        return None
    return ".".join([*(["blk", match["number"]] if match["number"] else []), part, match["kind"]])


def transformers_name(architecture: GgufArchitecture, name: str) -> str | None:
    """Return a tensor's name in transformers, or None if the architecture has no such tensor."""
    match = IN_GGUF.fullmatch(name)
    if match is None:
        return None
    part = (TOP if match["number"] is None else architecture.layer).get(match["part"])
    if part is None:
        return None
    return ".".join([*(["model.layers", match["number"]] if match["number"] else []), part, match["kind"]])


def needed(architecture: GgufArchitecture, layers: int, *, tied: bool) -> set[str]:
    """Return the names in GGUF of the weights that a model cannot do without; biases are not among them.

    Args:
        architecture: the kind of model.
        layers: how many it has.
        tied: whether its output layer is its embedding.
    """
    top = [part for part in TOP if not (tied and part == "output")]
    parts = [f"blk.{number}.{part}" for number in range(layers) for part in architecture.layer]
    return {f"{name}.weight" for name in (*top, *parts)}


def heads_of(name: str, heads: int, key_heads: int) -> int | None:
    """Return the number of heads of a tensor in GGUF whose rows are rotated, or None for all others."""
    part = name.split(".")[-2]
    return {"attn_q": heads, "attn_k": key_heads}.get(part)


def interleave(rows: Any, heads: int) -> Any:
    """Bring the rows of q or k, an array of shape (heads * size, ...), into GGUF's order.

    transformers rotates row i of a head with row i + size/2. llama.cpp rotates rows 2i and 2i + 1.
    """
    return rows.reshape(heads, 2, -1, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def separate(rows: Any, heads: int) -> Any:
    """Bring the rows of q or k from GGUF's order into that of transformers: the reverse of `interleave`."""
    return rows.reshape(heads, -1, 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)
