"""Train a base model from random weights on recall text, in minutes on two CPU cores.

The model learns to copy (Olsson et al. 2022, arXiv:2209.11895), which a few hundred trajectories cannot
teach. Fine-tuning teaches tasks, tools and calls. The loss covers only repeated text, since the rest is
random.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mcp_bench.trainer.data import Example
from mcp_bench.trainer.recipe import Recipe
from mcp_bench.trainer.rows import Row
from mcp_bench.trainer.tiny.recall_text import LARGEST, RecallText
from mcp_bench.trainer.tiny.schedule import Schedule
from mcp_bench.trainer.tiny.tokenizer import make_tokenizer

OnStep = Callable[[int, float, float, int], None]
"""Called with step, loss, share of correct answer tokens, and number of tokens."""


def make_base(
    recipe: Recipe, rows: Sequence[Row], folder: Path, schedule: Schedule, seed: int, on_step: OnStep
) -> None:
    """Train a model with the recipe's architecture and save it with its tokenizer.

    `rows` define only the vocabulary that the text is made of.
    """
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, set_seed
    from transformers.utils.logging import disable_progress_bar

    from mcp_bench.trainer.sft.muon import MuonAdamW

    disable_progress_bar()  # transformers' bar for writing files
    set_seed(seed % 2**32)  # numpy takes no others
    architecture = recipe.architecture
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
    rate = torch.optim.lr_scheduler.LambdaLR(optimizer, schedule.rate)
    text = RecallText(seed, syllables(tokenizer))
    model.train()
    for step, (sequences, length) in enumerate(schedule.shapes(), 1):
        ids, labels = _batch([example(text, tokenizer, length) for _ in range(sequences)])
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


def syllables(tokenizer: Any) -> list[str]:
    """Return the tokens that consist of letters, in alphabetical order."""
    return sorted(token for token in tokenizer.get_vocab() if token.isascii() and token.isalpha())


def example(text: RecallText, tokenizer: Any, length: int) -> Example:
    """Return pieces of text that fill exactly `length` tokens. Pieces are larger if more room is left."""
    encode = tokenizer.backend_tokenizer.encode  # one text at a time: threads slow short texts down
    tokens, trained = array("i"), bytearray()
    while len(tokens) < length:
        for piece, learned_from in text.draw(min(LARGEST, max(1, (length - len(tokens)) // 64))):
            ids = encode(piece, add_special_tokens=False).ids
            tokens.extend(ids)
            read = len(ids) if learned_from is None else min(learned_from, len(ids))
            trained.extend([0] * read + [1] * (len(ids) - read))
    return Example("recall text", tokens[:length], bytes(trained[:length]))


def _batch(drawn: Sequence[Example]) -> tuple[Any, Any]:
    """Return ids and labels, each of shape (sequences, length)."""
    import torch

    ids = torch.tensor([example.tokens.tolist() for example in drawn])
    return ids, torch.tensor([example.labels() for example in drawn])


def _loss(model: Any, ids: Any, labels: Any) -> tuple[Any, float]:
    """Return the mean loss over answer tokens, and the share of them that are the most likely ones."""
    from torch.nn.functional import cross_entropy

    hidden = model.model(ids).last_hidden_state[:, :-1]
    wanted = labels[:, 1:]
    kept = wanted != -100
    logits = model.lm_head(hidden[kept])  # only for answers: the other logits are not used
    return cross_entropy(logits, wanted[kept]), (logits.argmax(-1) == wanted[kept]).float().mean().item()
