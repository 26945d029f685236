"""Estimate by formula how much memory training takes on one device.

Weights, gradients and optimizer state are counted as in ZeRO (Rajbhandari et al. 2020,
https://arxiv.org/abs/1910.02054, section 3). Activations are counted per operation as in Korthikanti et al.
2022 (https://arxiv.org/abs/2205.05198, section 4.1), for the layers of `architecture.py`. `RESERVE` leaves
room for fragmentation, kernel workspaces and the driver.
"""

from __future__ import annotations

from typing import Literal

from mcp_bench.trainer.architectures.architecture import Architecture
from mcp_bench.trainer.architectures.layers import EXPERTS, LINEAR, Layer
from mcp_bench.trainer.recipe import Recipe

RESERVE = 0.9
"""Share of a device's memory that a recipe can use."""

LOGIT_TOKENS, LOGIT_VOCABULARY = 4096, 32768
"""Size of TRL 1.16's logit tiles (`trl/kernels/chunked_logprob.py`, `trl/trainer/utils.py`)."""

BATCH = 16
"""Requests that our engine decodes at once."""

Part = Literal["weights", "gradients", "optimizer", "gathered", "activations", "logits"]
LearningPart = Literal[
    "weights", "gradients", "optimizer", "reference", "teacher", "activations", "logits", "cache", "engine"
]


def device_memory(recipe: Recipe) -> dict[Part, int]:
    """Return the bytes that each part takes on one device, for the longest row."""
    trained, frozen = trained_parameters(recipe)
    shards = recipe.hardware.devices if recipe.hardware.sharding == "fsdp2" else 1
    # peft keeps adapters in 32 bits; so does accelerate with parameters sharded by FSDP2
    narrow = recipe.training.precision == "bf16" and recipe.lora is None and shards == 1
    wide = 2 if narrow else 4
    compute = compute_bytes(recipe)
    # frozen weights need no 32-bit copy for small updates
    return {
        "weights": (trained * wide + frozen * compute) // shards,
        "gradients": trained * wide // shards,
        "optimizer": trained * 2 * wide // shards,  # AdamW: two moments
        "gathered": _gathered(recipe),
        "activations": _activations(recipe),
        "logits": _logits(recipe, trained_head=not frozen),
    }


def learning_memory(recipe: Recipe) -> dict[LearningPart, int]:
    """Return the bytes that each part of `train rl` takes, with its engine, on one device.

    The engine answers with the weights that are trained. Several devices have a part of the weights each,
    and the first one, whose need this is, has all of them besides, for the `engine`. `reference` is the
    start; `teacher` is that of `sdpo`, which the other algorithms lack. `cache` is what the engine needs to
    decode its full batch at the greatest length; it takes more where there is more. Logits are those of
    sampled tokens, with their gradient, and four times in 32 bits: as if half of a micro-batch were sampled.
    A vLLM server takes nothing of these devices.
    """
    size, tokens, shards = recipe.architecture, recipe.rl.row_tokens, recipe.hardware.devices
    trained = sum(size.parameters().values())
    narrow, compute = recipe.training.precision == "bf16", compute_bytes(recipe)
    wide = 2 if narrow else 4
    answers = wide if shards == 1 else compute
    keys = sum(layer.kind != LINEAR for layer in size.layers()) * size.num_key_value_heads * size.head_dim
    layers = _layer_bytes(recipe, tokens)
    saved, here = sum(layers), recipe.rl.engine.kind == "torch"
    if shards > 1 and recipe.training.checkpointing != "off":
        saved = size.num_hidden_layers * size.hidden_size * compute + max(layers)
    return {
        "weights": trained * wide // shards,
        "gradients": trained * wide // shards,
        "optimizer": trained * 2 * wide // shards,
        "reference": trained * wide // shards,
        "teacher": trained * wide // shards,
        "activations": tokens * saved,
        "logits": tokens // 2 * size.vocab_size * (2 * compute + 4 * 4),
        "cache": BATCH * recipe.data.max_length * 2 * keys * answers if here else 0,
        "engine": trained * answers if here and shards > 1 else 0,
    }


def host_memory(recipe: Recipe) -> int:
    """Return the bytes of layer inputs that one device offloads to host memory."""
    if recipe.training.checkpointing != "offload":
        return 0
    size = recipe.architecture
    return size.num_hidden_layers * size.hidden_size * compute_bytes(recipe) * device_tokens(recipe)


def trained_parameters(recipe: Recipe) -> tuple[int, int]:
    """Return the numbers of trained and frozen parameters."""
    total = sum(recipe.architecture.parameters().values())
    if recipe.lora is None:
        return total, 0
    return recipe.architecture.lora_parameters(recipe.lora.rank, recipe.lora_targets), total


def device_tokens(recipe: Recipe) -> int:
    """Return the number of tokens that one device holds at once, for the longest row."""
    tokens = recipe.training.sequences_per_device * recipe.data.max_length
    return -(-tokens // recipe.hardware.context_parallel)


def compute_bytes(recipe: Recipe) -> int:
    return 4 if recipe.training.precision == "fp32" else 2


def _gathered(recipe: Recipe) -> int:
    """Return the bytes of temporary weights in compute precision, besides the stored weights.

    FSDP2 gathers one layer, prefetches the next, and reduces the gradients of one. Embedding and head belong
    to no layer and stay gathered. Without FSDP2, autocast keeps a 16-bit copy of the weights.
    """
    size = recipe.architecture
    parts, compute = size.parameters(), compute_bytes(recipe)
    adapted = 0
    if recipe.lora and any(name.startswith(EXPERTS) for name in recipe.lora_targets):
        adapted = 2 * compute * size.expert_parameters()  # peft makes the experts' change, and their sum
    if recipe.hardware.sharding == "fsdp2":
        return adapted + compute * (3 * size.layer_parameters() + parts["embedding"] + parts["head"])
    if recipe.training.precision == "bf16-mixed" and recipe.lora is None:
        return compute * sum(parts.values())
    return adapted


def _activations(recipe: Recipe) -> int:
    """Return the bytes of activations kept for the backward pass.

    Without checkpointing these are those of all layers, else the input of each layer and the activations of
    one.
    """
    size = recipe.architecture
    tokens, compute = device_tokens(recipe), compute_bytes(recipe)
    layers = _layer_bytes(recipe, recipe.data.max_length)
    if recipe.training.checkpointing == "off":
        return tokens * sum(layers)
    kept = 2 if recipe.training.checkpointing == "offload" else size.num_hidden_layers
    return tokens * (kept * size.hidden_size * compute + max(layers))


def _layer_bytes(recipe: Recipe, longest: int) -> list[int]:
    """Return the bytes per token that each layer saves; `longest` is the length of a row."""
    compute, size = compute_bytes(recipe), recipe.architecture
    eager = longest if recipe.training.attention == "eager" else 0
    return [
        _mixer_bytes(size, layer, compute, eager) + _mlp_bytes(size, layer, compute)
        for layer in size.layers()
    ]


def _mixer_bytes(size: Architecture, layer: Layer, compute: int, eager: int) -> int:
    """Return the bytes per token saved by attention, full, sliding or linear.

    RMSNorm saves its input in 32 bits. Each projection saves its input; attention saves queries, keys, values
    and output. A sliding window saves time, not memory.

    Args:
        size: the architecture.
        layer: the layer.
        compute: bytes per number in compute precision.
        eager: row length of the attention matrix, or 0 for fused kernels, which do not store it.
    """
    norm = size.hidden_size * (4 + compute)
    if layer.kind == LINEAR:
        key = size.linear_num_key_heads * size.linear_key_head_dim
        value = size.linear_num_value_heads * size.linear_value_head_dim
        # input and output of the convolution, the gate, the output, and its norm's input in 32 bits
        return norm + 2 * (2 * key + value) * compute + 2 * value * compute + value * 4
    queries = size.num_attention_heads * size.head_dim
    keys = size.num_key_value_heads * size.head_dim
    gate = queries if size.model_type == "qwen3_5_text" else 0
    rows = size.num_attention_heads * (eager * (4 + compute) or 4)  # scores, or the softmax's sums
    return norm + 2 * (queries + 2 * keys) * compute + (queries + gate) * compute + rows


def _mlp_bytes(size: Architecture, layer: Layer, compute: int) -> int:
    """Return the bytes per token saved by the MLP, or by the experts that a token is sent to.

    A gated MLP saves four vectors of its width. Of each routed expert, input and output are kept as well; the
    router's scores are in 32 bits.
    """
    norm = size.hidden_size * (4 + compute)
    dense = 4 * layer.mlp[-1].inputs * compute if layer.mlp else 0
    if not layer.experts:
        return norm + dense
    wide = size.moe_intermediate_size or size.intermediate_size
    routed = size.num_experts_per_tok * (4 * wide + 2 * size.hidden_size) * compute
    return norm + dense + routed + 2 * 4 * size.experts


def _logits(recipe: Recipe, *, trained_head: bool) -> int:
    """Return the bytes for logits. TRL computes them in tiles, never as a whole matrix.

    Counted are a tile of logits and its gradient in 32 bits, the last hidden states and their gradient, and
    the 32-bit gradient of the head if it is trained.
    """
    size, tokens = recipe.architecture, device_tokens(recipe)
    tile = min(tokens, LOGIT_TOKENS) * min(size.vocab_size, LOGIT_VOCABULARY)
    hidden = tokens * size.hidden_size * (compute_bytes(recipe) + 4)
    head = 4 * size.vocab_size * size.hidden_size if trained_head else 0
    return 2 * 4 * tile + hidden + head
