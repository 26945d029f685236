"""The numbers of a decoder's configuration, named as transformers names them."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, model_validator

EXPERT_COUNTS = {"qwen3_moe": "num_experts", "gpt_oss": "num_local_experts", "glm4_moe": "n_routed_experts"}
"""The name that each type has for its number of experts."""


class Sizes(BaseModel):
    """The numbers that decide memory and parameter counts.

    They are those of a base's `config.json`, or typed into a recipe for random weights and for a plan without
    the base.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: str = Field(min_length=1)
    """Source of the numbers."""
    model_type: str
    vocab_size: PositiveInt
    hidden_size: PositiveInt
    intermediate_size: PositiveInt
    num_hidden_layers: PositiveInt
    num_attention_heads: PositiveInt
    num_key_value_heads: PositiveInt
    head_dim: PositiveInt
    max_position_embeddings: PositiveInt
    tie_word_embeddings: bool = False
    attention_bias: bool = False
    mlp_bias: bool = False
    sliding_window: PositiveInt | None = None
    layer_types: tuple[str, ...] | None = None
    """`full_attention`, `sliding_attention` or `linear_attention` of each layer, where they differ."""
    full_attention_interval: PositiveInt = 4
    """Qwen3.5: one of this many layers has full attention."""
    linear_num_key_heads: PositiveInt = 16
    linear_num_value_heads: PositiveInt = 32
    linear_key_head_dim: PositiveInt = 128
    linear_value_head_dim: PositiveInt = 128
    linear_conv_kernel_dim: PositiveInt = 4
    experts: int = 0
    """Routed experts of a layer; 0 in dense models."""
    num_experts_per_tok: PositiveInt = 1
    moe_intermediate_size: PositiveInt | None = None
    n_shared_experts: int = 0
    first_k_dense_replace: int = 0
    """GLM: this many first layers are dense."""
    decoder_sparse_step: PositiveInt = 1
    mlp_only_layers: tuple[int, ...] = ()
    use_qk_norm: bool = False

    @model_validator(mode="before")
    @classmethod
    def _experts_have_several_names(cls, content: Any) -> Any:
        if isinstance(content, dict) and content.get("model_type") in EXPERT_COUNTS:
            content = dict(content)
            for name in EXPERT_COUNTS.values():
                if name in content:
                    content["experts"] = content.pop(name)
        return content
