"""What the layers of each model type consist of, following `modeling_*.py` of transformers 5.23."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from mcp_bench.trainer.architectures.sizes import Sizes

FULL, SLIDING, LINEAR = "full_attention", "sliding_attention", "linear_attention"

GATES = ("in_proj_a", "in_proj_b")
"""Small projections of linear attention, with one output per head: not worth an adapter."""


EXPERTS = "experts."
"""Beginning of the names of fused experts."""


class Matrix(NamedTuple):
    """A projection. Experts share one parameter with a copy for each."""

    name: str
    inputs: int
    outputs: int
    copies: int = 1


def size_of(matrices: Iterable[Matrix]) -> int:
    """Return the number of weights."""
    return sum(matrix.copies * matrix.inputs * matrix.outputs for matrix in matrices)


@dataclass(frozen=True)
class Layer:
    """The projections of a layer, and the number of its other parameters.

    `attention_rest` counts biases, convolutions and decays; `experts_rest` the router and biases.
    """

    kind: str
    """`full_attention`, `sliding_attention` or `linear_attention`."""
    attention: tuple[Matrix, ...]
    mlp: tuple[Matrix, ...] = ()
    """The dense MLP, or the experts that every token uses."""
    experts: tuple[Matrix, ...] = ()
    attention_rest: int = 0
    mlp_rest: int = 0
    experts_rest: int = 0
    norms: int = 0


def _attention(size: Sizes, gate: int = 1) -> tuple[Matrix, ...]:
    hidden, head = size.hidden_size, size.head_dim
    queries, keys = size.num_attention_heads * head, size.num_key_value_heads * head
    return (
        Matrix("q_proj", hidden, queries * gate),
        Matrix("k_proj", hidden, keys),
        Matrix("v_proj", hidden, keys),
        Matrix("o_proj", queries, hidden),
    )


def _mlp(hidden: int, wide: int) -> tuple[Matrix, ...]:
    up = (Matrix("gate_proj", hidden, wide), Matrix("up_proj", hidden, wide))
    return (*up, Matrix("down_proj", wide, hidden))


def _experts(size: Sizes, wide: int) -> tuple[Matrix, ...]:
    hidden, count = size.hidden_size, size.experts
    up = Matrix("experts.gate_up_proj", hidden, 2 * wide, count)
    return (up, Matrix("experts.down_proj", wide, hidden, count))


def _kinds(size: Sizes) -> tuple[str, ...]:
    return size.layer_types or (FULL,) * size.num_hidden_layers


def _biases(matrices: tuple[Matrix, ...]) -> int:
    return sum(matrix.outputs for matrix in matrices)


def _llama(size: Sizes) -> list[Layer]:
    attention, mlp = _attention(size), _mlp(size.hidden_size, size.intermediate_size)
    layer = Layer(
        SLIDING if size.model_type == "mistral" and size.sliding_window else FULL,
        attention,
        mlp,
        attention_rest=_biases(attention) if size.attention_bias else 0,
        mlp_rest=_biases(mlp) if size.mlp_bias else 0,
        norms=2 * size.hidden_size,
    )
    return [layer] * size.num_hidden_layers


def _qwen2(size: Sizes) -> list[Layer]:
    attention, mlp = _attention(size), _mlp(size.hidden_size, size.intermediate_size)
    biases = _biases(attention[:3])  # not for o_proj
    return [
        Layer(kind, attention, mlp, attention_rest=biases, norms=2 * size.hidden_size)
        for kind in _kinds(size)
    ]


def _qwen3(size: Sizes) -> list[Layer]:
    attention, mlp = _attention(size), _mlp(size.hidden_size, size.intermediate_size)
    biases = _biases(attention) if size.attention_bias else 0
    norms = 2 * size.hidden_size + 2 * size.head_dim
    return [Layer(kind, attention, mlp, attention_rest=biases, norms=norms) for kind in _kinds(size)]


def _gemma3(size: Sizes) -> list[Layer]:
    attention, mlp = _attention(size), _mlp(size.hidden_size, size.intermediate_size)
    biases = _biases(attention) if size.attention_bias else 0
    norms = 4 * size.hidden_size + 2 * size.head_dim  # before and after each half
    return [Layer(kind, attention, mlp, attention_rest=biases, norms=norms) for kind in _kinds(size)]


def _qwen3_5(size: Sizes) -> list[Layer]:
    hidden, mlp = size.hidden_size, _mlp(size.hidden_size, size.intermediate_size)
    key = size.linear_num_key_heads * size.linear_key_head_dim
    value = size.linear_num_value_heads * size.linear_value_head_dim
    linear = Layer(
        LINEAR,
        (
            Matrix("in_proj_qkv", hidden, 2 * key + value),
            Matrix("in_proj_z", hidden, value),
            Matrix("in_proj_b", hidden, size.linear_num_value_heads),
            Matrix("in_proj_a", hidden, size.linear_num_value_heads),
            Matrix("out_proj", value, hidden),
        ),
        mlp,
        # the convolution, A_log and dt_bias
        attention_rest=(2 * key + value) * size.linear_conv_kernel_dim + 2 * size.linear_num_value_heads,
        norms=2 * hidden + size.linear_value_head_dim,
    )
    attention = _attention(size, gate=2)  # the attention's output is gated
    biases = _biases(attention) if size.attention_bias else 0
    norms = 2 * hidden + 2 * size.head_dim
    full = Layer(FULL, attention, mlp, attention_rest=biases, norms=norms)
    kinds = size.layer_types or tuple(
        LINEAR if number % size.full_attention_interval else FULL
        for number in range(1, size.num_hidden_layers + 1)
    )
    return [linear if kind == LINEAR else full for kind in kinds]


def _gpt_oss(size: Sizes) -> list[Layer]:
    attention, experts = _attention(size), _experts(size, size.intermediate_size)
    hidden, count = size.hidden_size, size.experts
    rest = _biases(attention) if size.attention_bias else 0
    expert_biases = count * (2 * size.intermediate_size + hidden)
    return [
        Layer(
            kind,
            attention,
            experts=experts,
            attention_rest=rest + size.num_attention_heads,  # a sink for each head
            experts_rest=count * hidden + count + expert_biases,
            norms=2 * hidden,
        )
        for kind in size.layer_types
        or [FULL if number % 2 else SLIDING for number in range(size.num_hidden_layers)]
    ]


def _qwen3_moe(size: Sizes) -> list[Layer]:
    attention, hidden = _attention(size), size.hidden_size
    rest = _biases(attention) if size.attention_bias else 0
    norms = 2 * hidden + 2 * size.head_dim
    experts = _experts(size, size.moe_intermediate_size or size.intermediate_size)
    dense = Layer(FULL, attention, _mlp(hidden, size.intermediate_size), attention_rest=rest, norms=norms)
    sparse = Layer(
        FULL,
        attention,
        experts=experts,
        attention_rest=rest,
        experts_rest=size.experts * hidden,
        norms=norms,
    )
    return [
        dense
        if not size.experts or number in size.mlp_only_layers or (number + 1) % size.decoder_sparse_step
        else sparse
        for number in range(size.num_hidden_layers)
    ]


def _glm4_moe(size: Sizes) -> list[Layer]:
    attention, hidden = _attention(size), size.hidden_size
    rest = _biases(attention[:3]) if size.attention_bias else 0  # not for o_proj
    norms = 2 * hidden + (2 * size.head_dim if size.use_qk_norm else 0)
    wide = size.moe_intermediate_size or size.intermediate_size
    dense = Layer(FULL, attention, _mlp(hidden, size.intermediate_size), attention_rest=rest, norms=norms)
    sparse = Layer(
        FULL,
        attention,
        _mlp(hidden, wide * size.n_shared_experts),
        _experts(size, wide),
        attention_rest=rest,
        experts_rest=size.experts * hidden,
        norms=norms,
    )
    return [
        dense if number < size.first_k_dense_replace else sparse for number in range(size.num_hidden_layers)
    ]


FAMILIES: dict[str, Callable[[Sizes], list[Layer]]] = {
    "llama": _llama,
    "mistral": _llama,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "qwen3_5_text": _qwen3_5,
    "gemma3_text": _gemma3,
    "gpt_oss": _gpt_oss,
    "qwen3_moe": _qwen3_moe,
    "glm4_moe": _glm4_moe,
}
"""Model types with a formula."""
