"""A model's configuration as GGUF has it. What llama.cpp would compute in another way is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mcp_bench.servers.errors import WrongUseError
from mcp_bench.trainer.gguf.architectures import MODEL_TYPES, GgufArchitecture


def read_configuration(folder: Path) -> tuple[GgufArchitecture, Any]:
    """Return the architecture and the configuration of a model's folder.

    Raises:
        WrongUseError: the model is of another kind, or computes in a way that GGUF does not describe.
    """
    from transformers import AutoConfig

    try:
        config = AutoConfig.from_pretrained(str(folder))
    except Exception as error:  # transformers raises different types
        raise WrongUseError(f"cannot read {folder / 'config.json'}: {str(error).splitlines()[0]}") from error
    architecture = MODEL_TYPES.get(config.model_type)
    if architecture is None:
        raise WrongUseError(
            f"{folder} is a model of type {config.model_type!r}: only {', '.join(MODEL_TYPES)} can be "
            "written to GGUF here. llama.cpp's own convert_hf_to_gguf.py knows more of them"
        )
    if config.hidden_act != "silu":
        raise WrongUseError(f"{folder} has hidden_act {config.hidden_act!r}: llama.cpp computes silu")
    window = getattr(config, "sliding_window", None)
    if window is not None and window < config.max_position_embeddings:
        raise WrongUseError(
            f"{folder} attends to the last {window} tokens only (sliding_window), llama.cpp would to all"
        )
    kind = config.rope_parameters["rope_type"]
    if kind not in ("default", "linear", "llama3"):
        raise WrongUseError(f"{folder} scales positions by {kind!r}, which is not written to GGUF")
    return architecture, config


def add_hyperparameters(writer: Any, config: Any) -> None:
    """Add the model's sizes and constants to a `GGUFWriter`."""
    heads, size = config.num_attention_heads, head_size(config)
    writer.add_vocab_size(config.vocab_size)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(heads)
    writer.add_head_count_kv(key_heads(config))
    writer.add_key_length(size)
    writer.add_value_length(size)
    writer.add_rope_dimension_count(size)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    if config.rope_parameters["rope_type"] == "linear":
        from gguf import RopeScalingType

        writer.add_rope_scaling_type(RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(config.rope_parameters["factor"])


def head_size(config: Any) -> int:
    """Return the number of values of an attention head."""
    return int(getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads)


def key_heads(config: Any) -> int:
    """Return the number of heads of keys and values."""
    return int(getattr(config, "num_key_value_heads", None) or config.num_attention_heads)


def rope_factors(config: Any) -> Any:
    """Return what llama.cpp divides the rotation's frequencies by, or None if it is one.

    An array of float32 of shape (head size / 2,). Only Llama 3.1 and later scale this way.
    """
    if config.rope_parameters["rope_type"] != "llama3":
        return None
    import torch
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    scaled, _ = ROPE_INIT_FUNCTIONS["llama3"](config, torch.device("cpu"))
    size = head_size(config)
    plain = 1.0 / config.rope_parameters["rope_theta"] ** (
        torch.arange(0, size, 2, dtype=torch.float32) / size
    )
    return (plain / scaled).float().numpy()
