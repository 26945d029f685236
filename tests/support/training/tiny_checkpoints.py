"""Locally made checkpoints of a few hundred thousand parameters that have memorised one answer."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Any

from tests.support.training.byte_tokenizers import byte_tokenizer

TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "find",
            "description": "Find a person.",
            "parameters": {"type": "object", "properties": {"name": {"type": "string"}}},
        },
    }
]
QUESTION: list[dict[str, Any]] = [{"role": "user", "content": "Who is Ada?"}]

QWEN3_CALL = '<tool_call>\n{"name": "find", "arguments": {"name": "Ada"}}\n</tool_call>'
QWEN3_5_CALL = "<tool_call>\n<function=find>\n<parameter=name>\nAda\n</parameter>\n</function>\n</tool_call>"
BROKEN_CALL = '<tool_call>\n{"name": "find", "arguments": {"name": Ada}\n</tool_call>'


def template(name: str) -> str:
    """Return a real model's training template, as shipped with TRL."""
    return (resources.files("trl") / "chat_templates" / f"{name}.jinja").read_text(encoding="utf-8")


def qwen3(vocabulary: int) -> Any:
    _same_weights()
    from transformers import Qwen3Config, Qwen3ForCausalLM

    return Qwen3ForCausalLM(Qwen3Config(**_sizes(vocabulary), num_hidden_layers=2))


def qwen3_5(vocabulary: int) -> Any:
    """Return the smallest Qwen3.5 model with both kinds of layers: three linear and one full attention."""
    _same_weights()
    from transformers import Qwen3_5ForCausalLM, Qwen3_5TextConfig

    linear = {
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 2,
        "linear_key_head_dim": 32,
        "linear_value_head_dim": 32,
    }
    return Qwen3_5ForCausalLM(Qwen3_5TextConfig(**_sizes(vocabulary), **linear, num_hidden_layers=4))


def _same_weights() -> None:
    """Make the weights independent of what ran in this process before."""
    import torch

    torch.manual_seed(0)


def _sizes(vocabulary: int) -> dict[str, Any]:
    return {
        "vocab_size": vocabulary,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_attention_heads": 1,
        "num_key_value_heads": 1,
        "head_dim": 64,
        "max_position_embeddings": 4096,
        "tie_word_embeddings": True,
    }


def make_tokenizer(chat_template: str) -> Any:
    """Return a byte-level tokenizer with the family's special tokens."""
    return byte_tokenizer(chat_template)


CERTAIN = 0.1
"""A loss at which a token has a probability of 0.9."""


def learn(
    model: Any, tokenizer: Any, answers: list[tuple[list[dict[str, Any]], str]], steps: int = 150
) -> float:
    """Train until every conversation is answered verbatim, and return the last loss.

    The answers are certain long before the mean loss is small, so the least probable token decides.
    """
    import torch

    rows = []
    for messages, answer in answers:
        prompt = tokenizer.apply_chat_template(
            messages, tools=TOOLS, add_generation_prompt=True, tokenize=True, return_dict=False
        )
        said = tokenizer(answer + "<|im_end|>", add_special_tokens=False)["input_ids"]
        rows.append((prompt, said))
    model.train()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=4e-3)
    # all rows in one batch, padded on the right, where causal attention does not see the padding
    widest = max(len(prompt) + len(said) for prompt, said in rows)
    ids = torch.zeros(len(rows), widest, dtype=torch.long)
    labels = torch.full((len(rows), widest), -100)
    for row, (prompt, said) in enumerate(rows):
        ids[row, : len(prompt) + len(said)] = torch.tensor(prompt + said)
        labels[row, len(prompt) : len(prompt) + len(said)] = torch.tensor(said)
    total = 9.0
    for _ in range(steps):
        optimizer.zero_grad()
        scores = model(input_ids=ids).logits[:, :-1]
        losses = torch.nn.functional.cross_entropy(
            scores.transpose(1, 2), labels[:, 1:], ignore_index=-100, reduction="none"
        )
        means = losses.sum(dim=1) / (labels[:, 1:] != -100).sum(dim=1)
        means.sum().backward()
        optimizer.step()
        total = float(means.detach().max())
        if float(losses.detach().max()) < CERTAIN:
            break
    return total


def save(model: Any, tokenizer: Any, folder: Path) -> Path:
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    model.generation_config.do_sample = False
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
