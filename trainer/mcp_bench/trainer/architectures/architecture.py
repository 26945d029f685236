"""Sizes of a decoder, named as in its transformers configuration, and its parameter counts.

This module computes numbers only. It imports neither torch nor transformers, so a plan takes milliseconds. A
test compares the counts with models on torch's meta device. There, `counted.py` counts types without a
formula.
"""

from __future__ import annotations

from typing import Any

from pydantic import model_validator

from mcp_bench.servers.errors import suggestion
from mcp_bench.trainer.architectures.layers import FAMILIES, GATES, Layer, Matrix, size_of
from mcp_bench.trainer.architectures.sizes import EXPERT_COUNTS, Sizes

MIXTURE = {
    *("num_experts_per_tok", "moe_intermediate_size", "n_shared_experts", "first_k_dense_replace"),
    *("decoder_sparse_step", "mlp_only_layers", "use_qk_norm"),
}
"""Numbers of mixtures of experts."""


class Architecture(Sizes):
    """Sizes with their layers: what a plan is computed from."""

    @model_validator(mode="after")
    def _type_is_known(self) -> Architecture:
        if type(self) is Architecture and self.model_type not in FAMILIES:
            raise ValueError(
                f"no formula for model_type {self.model_type!r}{suggestion(self.model_type, FAMILIES)}. "
                "Leave out model.architecture: the sizes are then read from model.base"
            )
        if self.num_attention_heads % self.num_key_value_heads:
            raise ValueError(
                f"num_attention_heads ({self.num_attention_heads}) must be a multiple of "
                f"num_key_value_heads ({self.num_key_value_heads})"
            )
        if self.layer_types is not None and len(self.layer_types) != self.num_hidden_layers:
            raise ValueError(
                f"layer_types has {len(self.layer_types)} layers, but num_hidden_layers is "
                f"{self.num_hidden_layers}"
            )
        return self

    def layers(self) -> list[Layer]:
        """Return the parameters of each layer."""
        return FAMILIES[self.model_type](self)

    @property
    def linear_layers(self) -> int:
        """Number of layers with linear attention, or another state that is carried along the sequence."""
        return sum(layer.kind == "linear_attention" for layer in self.layers())

    def parameters(self) -> dict[str, int]:
        """Return the numbers of parameters of embedding, head (0 if tied) and the parts of all layers."""
        embedding = self.vocab_size * self.hidden_size
        layers = self.layers()
        return {
            "embedding": embedding,
            "head": 0 if self.tie_word_embeddings else embedding,
            "attention": sum(size_of(layer.attention) + layer.attention_rest for layer in layers),
            "mlp": sum(size_of(layer.mlp) + layer.mlp_rest for layer in layers),
            "experts": sum(size_of(layer.experts) + layer.experts_rest for layer in layers),
            "norms": sum(layer.norms for layer in layers) + self.hidden_size,
        }

    def layer_parameters(self) -> int:
        """Return the number of parameters of the largest layer."""
        return max(
            size_of((*layer.attention, *layer.mlp, *layer.experts))
            + layer.attention_rest
            + layer.mlp_rest
            + layer.experts_rest
            + layer.norms
            for layer in self.layers()
        )

    def expert_parameters(self) -> int:
        """Return the number of expert parameters of the largest layer."""
        return max(size_of(layer.experts) for layer in self.layers())

    def projections(self) -> list[str]:
        """Return the names of the modules and fused parameters that can be adapted."""
        return list(
            dict.fromkeys(matrix.name for layer in self.layers() for matrix in self._adaptable(layer))
        )

    def default_targets(self) -> list[str]:
        """Return what adapters are trained on by default: all projections but the small gates."""
        return [name for name in self.projections() if name not in GATES]

    def lora_parameters(self, rank: int, targets: list[str]) -> int:
        """Return the number of parameters of LoRA adapters.

        Each adapted matrix adds rank x (inputs + outputs) (Hu et al. 2021,
        https://arxiv.org/abs/2106.09685), and so does each expert's in a fused parameter.
        """
        return sum(
            rank * matrix.copies * (matrix.inputs + matrix.outputs)
            for layer in self.layers()
            for matrix in self._adaptable(layer)
            if matrix.name in targets
        )

    def _adaptable(self, layer: Layer) -> tuple[Matrix, ...]:
        # where experts are fused, peft turns the names of a dense MLP into those of the experts
        return (*layer.attention, *layer.experts) if self.experts else (*layer.attention, *layer.mlp)

    def configuration(self) -> dict[str, Any]:
        """Return the arguments for the transformers configuration class of `model_type`."""
        numbers = self.model_dump(mode="json", exclude={"source", "model_type", "experts"}, exclude_none=True)
        biased = self.model_type == "gpt_oss"  # the only one with biases by default
        unused = {name for name in ("attention_bias", "mlp_bias") if not numbers[name] and not biased}
        if self.model_type != "qwen3_5_text":
            unused |= {name for name in numbers if name.startswith("linear_")} | {"full_attention_interval"}
        if not self.experts:
            unused |= MIXTURE
        numbers = {name: value for name, value in numbers.items() if name not in unused}
        if self.model_type in EXPERT_COUNTS:
            numbers[EXPERT_COUNTS[self.model_type]] = self.experts
        if self.model_type == "mistral":
            numbers["sliding_window"] = self.sliding_window
        return numbers
