"""A Llama model of 0.1M parameters with SmolLM2's way to split text, as a folder: no network, half a second."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.training.byte_tokenizers import CHATML, QWEN_SPECIAL

MERGES = [("Ġ", "t"), ("h", "e"), ("Ġt", "he"), ("i", "n")]


def tiny_tokenizer(template: str | None = CHATML) -> Any:
    """Return a byte-level BPE tokenizer with four merges."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    tokens = [*QWEN_SPECIAL, *sorted(pre_tokenizers.ByteLevel.alphabet()), *map("".join, MERGES)]
    made = Tokenizer(models.BPE(vocab={token: number for number, token in enumerate(tokens)}, merges=MERGES))
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    return PreTrainedTokenizerFast(
        tokenizer_object=made,
        bos_token="<|im_start|>",
        eos_token="<|im_end|>",
        unk_token="<|endoftext|>",
        pad_token="<|endoftext|>",
        chat_template=template,
    )


def tiny_llama(vocabulary: int, **changes: Any) -> Any:
    """Return a model with random weights, four heads and two heads of keys. `changes` go to its configuration."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    sizes = {
        "vocab_size": vocabulary,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "num_hidden_layers": 2,
        "max_position_embeddings": 2048,
        "tie_word_embeddings": True,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": 0,
    }
    return LlamaForCausalLM(LlamaConfig(**{**sizes, **changes}))


def tiny_llama_folder(folder: Path, **changes: Any) -> Path:
    """Save the model with its tokenizer."""
    tokenizer = tiny_tokenizer()
    tiny_llama(len(tokenizer), **changes).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
