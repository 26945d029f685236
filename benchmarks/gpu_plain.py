"""Train a recipe with torch, transformers and peft only, for machines that have no TRL.

The input, the model and what is saved are those of `mcp-bench train sft`; the loop is the plainest one that
can train on them: no checkpoints, no packing, AdamW, and the recipe's learning rate from a linear warm-up
down to zero.
"""

from __future__ import annotations

import json
import math
import random
import time
from pathlib import Path
from typing import Any

import torch

IGNORED = -100
WARM_SHARE = 0.05


def train_plainly(recipe: Any, base: str, data: list[Path], folder: Path) -> None:
    """Train, and write `metrics.jsonl` and `model/` as a run of `train sft` has them."""
    from mcp_bench.trainer.sft.model import adapter, load_model, make_servable, save_result, stop_tokens
    from mcp_bench.trainer.sft.train import make_ready

    ready = make_ready(recipe, recipe.model.tokenizer or base, data)
    examples, training, device = ready.prepared.examples, recipe.training, recipe.hardware.device
    model = load_model(recipe, ready.tokenizer)
    stops = stop_tokens(examples, ready.tokenizer)
    make_servable(model, ready.tokenizer, ready.templates, stops, recipe.generation)
    if recipe.lora:
        from peft import get_peft_model

        model = get_peft_model(model, adapter(recipe))
    model.to(device).train()
    optimizer = torch.optim.AdamW(
        (weight for weight in model.parameters() if weight.requires_grad), lr=training.learning_rate
    )
    size = training.sequences_per_device
    steps = math.ceil(training.epochs * math.ceil(len(examples) / size))
    warm = max(1, round(steps * WARM_SHARE))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / warm, (steps - step) / max(steps - warm, 1))
    )
    shuffled, step = random.Random(training.seed), 0
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "metrics.jsonl").open("w") as metrics:
        order: list[Any] = []
        while step < steps:
            order = order or shuffled.sample(examples, len(examples))
            began = time.perf_counter()
            rows, order = order[:size], order[size:]
            loss = _step(model, rows, device)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            step += 1
            tokens = sum(len(row.tokens) for row in rows)
            line = {
                "step": step,
                "steps": steps,
                "loss": loss,
                "tokens_per_second": tokens / (time.perf_counter() - began),
                "memory_bytes": torch.cuda.max_memory_allocated() if device == "cuda" else 0,
            }
            metrics.write(json.dumps(line) + "\n")
    save_result(model, model.state_dict(), ready.tokenizer, folder / "model")


def _step(model: Any, rows: list[Any], device: str) -> float:
    """Add the gradients of one step, and return its mean loss. A sequence at a time: no padding."""
    trained = sum(sum(row.trained[1:]) for row in rows)
    total = 0.0
    for row in rows:
        ids = torch.tensor([list(row.tokens)], device=device)
        labels = torch.tensor(row.labels(IGNORED), device=device)
        with torch.autocast(device, dtype=torch.bfloat16, enabled=device == "cuda"):
            logits = model(input_ids=ids, use_cache=False).logits[0, :-1].float()
        loss = torch.nn.functional.cross_entropy(logits, labels[1:], ignore_index=IGNORED, reduction="sum")
        loss = loss / max(trained, 1)
        torch.autograd.backward(loss)
        total += loss.item()
    return total
