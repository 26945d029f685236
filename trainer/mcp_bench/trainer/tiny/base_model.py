"""Trains a base model from random weights on recall text, in minutes on two CPU cores.

What a task takes (calls, tools, requests) is left to fine-tuning. What cannot be learned from some hundred
trajectories is learned here: to copy. The loss is on answers only, since the made-up text around them has
nothing in it that could be learned.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp_bench.trainer.data import Example
from mcp_bench.trainer.recipe import Recipe
from mcp_bench.trainer.rows import Row
from mcp_bench.trainer.tiny.recall_text import RecallText
from mcp_bench.trainer.tiny.tokenizer import make_tokenizer

WARMUP = 20
"""Steps until the learning rate is reached."""
DECAY = 0.4
"""Share of the steps, the last ones, over which it goes to 0 (Hägele et al. 2024, arXiv:2405.18392)."""


@dataclass(frozen=True)
class Schedule:
    """`steps` of `sequences` times `length` tokens."""

    steps: int = 900
    sequences: int = 16
    length: int = 256
    learning_rate: float = 3e-3
    muon_learning_rate: float = 0.02


OnStep = Callable[[int, float, float, int], None]
"""Step, loss, share of the answers' tokens that were right, and tokens."""


def make_base(
    recipe: Recipe, rows: Sequence[Row], folder: Path, schedule: Schedule, seed: int, on_step: OnStep
) -> None:
    """Train a model of the recipe's architecture and save it with its tokenizer.

    `rows` give the vocabulary, and words that text is made of; nothing of them is learned.
    """
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, set_seed

    from mcp_bench.trainer.sft.muon import MuonAdamW

    set_seed(seed)
    architecture = recipe.model.architecture
    tokenizer = make_tokenizer(rows, architecture.vocab_size)
    config = AutoConfig.for_model(
        architecture.model_type,
        **architecture.configuration(),
        initializer_range=0.05,
        rope_parameters={"rope_type": "default", "rope_theta": 10_000.0},
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )
    model: Any = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    optimizer = MuonAdamW(model, lr=schedule.learning_rate, muon_lr=schedule.muon_learning_rate)
    rate = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _rate(step, schedule.steps))
    texts = examples(RecallText(seed, words(rows)), tokenizer, schedule.length)
    model.train()
    for step in range(1, schedule.steps + 1):
        ids, labels = _batch([next(texts) for _ in range(schedule.sequences)])
        loss, right = _loss(model, ids, labels)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        rate.step()
        optimizer.zero_grad()
        on_step(step, loss.item(), right, ids.numel())
    model.generation_config.do_sample = False
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def words(rows: Sequence[Row]) -> list[str]:
    """Return the words of the requests in the rows, in alphabetical order."""
    found = {
        word.lower()
        for row in rows
        for message in row.messages
        if message["role"] == "user"
        for word in re.findall("[A-Za-z]+", message["content"] or "")
    }
    return sorted(found)


def examples(text: RecallText, tokenizer: Any, length: int) -> Iterator[Example]:
    """Yield examples of exactly `length` tokens, as many pieces of text one after the other as fill them."""
    while True:
        tokens, trained = array("i"), bytearray()
        while len(tokens) < length:
            for piece, learned in text.draw():
                ids = tokenizer.encode(piece, add_special_tokens=False)
                tokens.extend(ids)
                trained.extend([learned] * len(ids))
        yield Example("recall text", tokens[:length], bytes(trained[:length]))


def _batch(drawn: Sequence[Example]) -> tuple[Any, Any]:
    """Return ids and labels, shape (sequences, length)."""
    import torch

    ids = torch.tensor([example.tokens.tolist() for example in drawn])
    return ids, torch.tensor([example.labels() for example in drawn])


def _loss(model: Any, ids: Any, labels: Any) -> tuple[Any, float]:
    """Return the mean loss over answers, and how many of their tokens are the likeliest ones."""
    from torch.nn.functional import cross_entropy

    hidden = model.model(ids).last_hidden_state[:, :-1]
    wanted = labels[:, 1:]
    kept = wanted != -100
    logits = model.lm_head(hidden[kept])  # of answers alone: the rest would cost as much and is not used
    return cross_entropy(logits, wanted[kept]), (logits.argmax(-1) == wanted[kept]).float().mean().item()


def _rate(step: int, steps: int) -> float:
    return min(1.0, (step + 1) / WARMUP, (steps - step) / (steps * DECAY))
