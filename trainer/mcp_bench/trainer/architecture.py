"""Sizes of a decoder, named as in its transformers configuration, and its parameter counts.

This module computes numbers only. It imports neither torch nor transformers, so a plan takes milliseconds. A
test compares the counts with models on torch's meta device.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, model_validator


class Architecture(BaseModel):
    """Qwen3 (full attention in every layer) or the text part of Qwen3.5 (linear attention in most layers).

    The layers follow `modeling_qwen3.py` and `modeling_qwen3_5.py` of transformers 5.23.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: str = Field(min_length=1)
    """Source of the numbers."""
    model_type: Literal["qwen3", "qwen3_5_text"]
    vocab_size: PositiveInt
    hidden_size: PositiveInt
    intermediate_size: PositiveInt
    num_hidden_layers: PositiveInt
    num_attention_heads: PositiveInt
    num_key_value_heads: PositiveInt
    head_dim: PositiveInt
    max_position_embeddings: PositiveInt
    tie_word_embeddings: bool = False
    full_attention_interval: PositiveInt = 4
    """Qwen3.5: one of this many layers has full attention."""
    linear_num_key_heads: PositiveInt = 16
    linear_num_value_heads: PositiveInt = 32
    linear_key_head_dim: PositiveInt = 128
    linear_value_head_dim: PositiveInt = 128
    linear_conv_kernel_dim: PositiveInt = 4

    @model_validator(mode="after")
    def _heads_divide(self) -> Architecture:
        if self.num_attention_heads % self.num_key_value_heads:
            raise ValueError(
                f"num_attention_heads ({self.num_attention_heads}) must be a multiple of "
                f"num_key_value_heads ({self.num_key_value_heads})"
            )
        return self

    @property
    def linear_layers(self) -> int:
        """Number of layers with linear attention."""
        if self.model_type == "qwen3":
            return 0
        return self.num_hidden_layers - self.num_hidden_layers // self.full_attention_interval

    @property
    def full_layers(self) -> int:
        """Number of layers with full attention."""
        return self.num_hidden_layers - self.linear_layers

    @property
    def layer_class(self) -> str:
        """Name of the class that FSDP wraps, one instance per layer."""
        return {"qwen3": "Qwen3DecoderLayer", "qwen3_5_text": "Qwen3_5DecoderLayer"}[self.model_type]

    @property
    def mixer_shapes(self) -> tuple[dict[str, tuple[int, int]], dict[str, tuple[int, int]]]:
        """Shapes (inputs, outputs) of the projections of a full attention layer and of a linear one."""
        hidden, head = self.hidden_size, self.head_dim
        queries, keys = self.num_attention_heads * head, self.num_key_value_heads * head
        gate = 2 if self.model_type == "qwen3_5_text" else 1  # Qwen3.5 gates the attention's output
        full = {
            "q_proj": (hidden, queries * gate),
            "k_proj": (hidden, keys),
            "v_proj": (hidden, keys),
            "o_proj": (queries, hidden),
        }
        value = self.linear_num_value_heads * self.linear_value_head_dim
        key = self.linear_num_key_heads * self.linear_key_head_dim
        linear = {
            "in_proj_qkv": (hidden, 2 * key + value),
            "in_proj_z": (hidden, value),
            "in_proj_b": (hidden, self.linear_num_value_heads),
            "in_proj_a": (hidden, self.linear_num_value_heads),
            "out_proj": (value, hidden),
        }
        return full, linear if self.linear_layers else {}

    @property
    def mlp_shapes(self) -> dict[str, tuple[int, int]]:
        """Shapes (inputs, outputs) of the projections of a layer's MLP."""
        hidden, wide = self.hidden_size, self.intermediate_size
        return {"gate_proj": (hidden, wide), "up_proj": (hidden, wide), "down_proj": (wide, hidden)}

    def parameters(self) -> dict[str, int]:
        """Return the number of parameters of embedding, head (0 if tied), attention, mlp and norms."""
        full, linear = self.mixer_shapes
        key = self.linear_num_key_heads * self.linear_key_head_dim
        value = self.linear_num_value_heads * self.linear_value_head_dim
        convolution = (2 * key + value) * self.linear_conv_kernel_dim
        decay = 2 * self.linear_num_value_heads  # A_log and dt_bias
        embedding = self.vocab_size * self.hidden_size
        return {
            "embedding": embedding,
            "head": 0 if self.tie_word_embeddings else embedding,
            "attention": self.full_layers * _size(full)
            + self.linear_layers * (_size(linear) + convolution + decay),
            "mlp": self.num_hidden_layers * _size(self.mlp_shapes),
            "norms": self.full_layers * 2 * self.head_dim
            + self.linear_layers * self.linear_value_head_dim
            + (2 * self.num_hidden_layers + 1) * self.hidden_size,
        }

    def lora_parameters(self, rank: int, targets: list[str]) -> int:
        """Return the number of parameters of LoRA adapters.

        Each adapted matrix adds rank x (inputs + outputs) (Hu et al. 2021,
        https://arxiv.org/abs/2106.09685).
        """
        full, linear = self.mixer_shapes
        mlp = (self.num_hidden_layers, self.mlp_shapes)
        counted = ((self.full_layers, full), (self.linear_layers, linear), mlp)
        return sum(
            layers * rank * sum(shapes[name])
            for layers, shapes in counted
            for name in targets
            if name in shapes
        )

    def projections(self) -> list[str]:
        """Return the names of the modules that can be adapted."""
        full, linear = self.mixer_shapes
        return [*full, *linear, *self.mlp_shapes]

    def configuration(self) -> dict[str, Any]:
        """Return the arguments for the transformers configuration class of `model_type`."""
        numbers = self.model_dump(exclude={"source", "model_type"})
        if self.model_type == "qwen3":
            return {k: v for k, v in numbers.items() if k != "full_attention_interval" and "linear_" not in k}
        return numbers


def _size(shapes: dict[str, tuple[int, int]]) -> int:
    return sum(inputs * outputs for inputs, outputs in shapes.values())
