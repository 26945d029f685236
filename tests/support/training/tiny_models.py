"""Folders with models of each type: random weights, two layers, and a tokenizer with the family's template."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.training.byte_tokenizers import QWEN_SPECIAL, byte_tokenizer

SIZES = {
    "vocab_size": 320,
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "max_position_embeddings": 8192,
}

# Mistral's form, without what its template checks: calls are one JSON list, results follow in brackets.
MISTRAL = """\
{{- bos_token }}
{%- for message in messages %}
{%- if message.role == 'user' %}
{%- if tools and loop.first %}{{- '[AVAILABLE_TOOLS]' + tools | tojson + '[/AVAILABLE_TOOLS]' }}{%- endif %}
{{- '[INST]' + message.content + '[/INST]' }}
{%- elif message.role == 'tool' %}{{- '[TOOL_RESULTS]' + message.content + '[/TOOL_RESULTS]' }}
{%- elif message.role == 'assistant' and message.tool_calls %}
{{- '[TOOL_CALLS][' }}
{%- for call in message.tool_calls %}{{- call.function | tojson + ('' if loop.last else ', ') }}{%- endfor %}
{{- ']' + eos_token }}
{%- elif message.role == 'assistant' %}{{- message.content + eos_token }}
{%- endif %}
{%- endfor %}"""

GLM_SPECIAL = (
    *("<|endoftext|>", "[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>"),
    *("<think>", "</think>", "<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>"),
    *("<arg_value>", "</arg_value>"),
)
HARMONY_SPECIAL = (
    *("<|endoftext|>", "<|startoftext|>", "<|start|>", "<|end|>", "<|message|>", "<|channel|>"),
    *("<|constrain|>", "<|return|>", "<|call|>"),
)
LLAMA_SPECIAL = (
    *("<|end_of_text|>", "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
    *("<|eom_id|>", "<|python_tag|>"),
)
MISTRAL_SPECIAL = (
    *("<pad>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]"),
    *("[TOOL_CALLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]"),
)


class Family(NamedTuple):
    """Tokens and template of a family, and what its configuration has beyond `SIZES`."""

    special: tuple[str, ...]
    template: str
    """A file of TRL (without `.jinja`), or the template itself."""
    bos: str | None
    eos: str
    config: dict[str, Any] = {}


FAMILIES: dict[str, Family] = {
    "llama": Family(LLAMA_SPECIAL, "llama3_1", "<|begin_of_text|>", "<|eot_id|>"),
    "gemma3_text": Family(
        ("<pad>", "<eos>", "<bos>", "<start_of_turn>", "<end_of_turn>"), "gemma3", "<bos>", "<eos>"
    ),
    "qwen3": Family(QWEN_SPECIAL, "qwen3", None, "<|im_end|>"),
    "qwen3_5_text": Family(
        QWEN_SPECIAL,
        "qwen3_5_nothink",
        None,
        "<|im_end|>",
        {
            "layer_types": ["linear_attention", "full_attention"],
            "linear_num_key_heads": 2,
            "linear_num_value_heads": 2,
            "linear_key_head_dim": 16,
            "linear_value_head_dim": 16,
        },
    ),
    "mistral": Family(MISTRAL_SPECIAL, MISTRAL, "<s>", "</s>", {"sliding_window": 64}),
    "gpt_oss": Family(
        HARMONY_SPECIAL,
        "gptoss",
        "<|startoftext|>",
        "<|return|>",
        {
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "sliding_window": 64,
            "rope_parameters": {"rope_type": "default", "rope_theta": 150000.0},
        },
    ),
    "glm4_moe": Family(
        GLM_SPECIAL,
        "glm4moe",
        None,
        "<|endoftext|>",
        {
            "moe_intermediate_size": 16,
            "n_routed_experts": 4,
            "num_experts_per_tok": 2,
            "first_k_dense_replace": 1,
            "num_nextn_predict_layers": 0,
            "tie_word_embeddings": True,
        },
    ),
}


def family_tokenizer(model_type: str) -> Any:
    """Return a byte-level tokenizer with the special tokens and the template of a family."""
    family = FAMILIES[model_type]
    template = family.template
    if "{" not in template:
        file = resources.files("trl") / "chat_templates" / f"{template}.jinja"
        template = file.read_text(encoding="utf-8")
    made = byte_tokenizer(template, family.special)
    made.eos_token, made.pad_token = family.eos, family.special[0]
    if family.bos is not None:
        made.bos_token = family.bos
    return made


def tiny_model(folder: Path, model_type: str) -> Path:
    """Write a model of a type with random weights, always the same, and return its folder."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    tokenizer = family_tokenizer(model_type)
    torch.manual_seed(0)
    config = AutoConfig.for_model(
        model_type,
        **{**SIZES, **FAMILIES[model_type].config},
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
    )
    model = AutoModelForCausalLM.from_config(config)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
