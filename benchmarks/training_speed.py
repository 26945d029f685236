"""Compare the speed of `mcp-bench train sft` with a bare PyTorch loop, on the same model and batches.

    python benchmarks/training_speed.py DATA.jsonl BASE [--recipe tiny-cpu] [--steps 60]

DATA and BASE are an export and a base model, such as turn-1/train.jsonl and base in demo-out/loop-0 after
`make demo`. After each step of the trainer, the bare loop makes one with the same rows on a copy of the
model, so that other load affects both alike. The trainer's time includes everything between two steps:
fetching rows, checks, logging. The bare loop is minimal: the model's own loss, the same optimizer, gradient
clipping.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any

import torch

from mcp_bench.trainer.recipe import load_recipe
from mcp_bench.trainer.sft.model import load_model
from mcp_bench.trainer.sft.muon import MuonAdamW
from mcp_bench.trainer.sft.run_folder import RunFolder
from mcp_bench.trainer.sft.train import Ready, make_ready, make_trainer
from mcp_bench.trainer.sft.trainer_inputs import ROWS, RightPadding

WARM = 5
"""Warm-up steps that are not counted."""


class EnoughError(Exception):
    """Raised after the last step."""


class Bare:
    """A bare training loop."""

    def __init__(self, ready: Ready) -> None:
        training = ready.recipe.training
        self.model = load_model(ready.recipe, ready.tokenizer).train()
        rates = {"lr": training.learning_rate, "muon_lr": training.muon_learning_rate}
        self.optimizer: Any = (
            MuonAdamW(self.model, **rates, weight_decay=training.weight_decay)
            if training.optimizer == "muon"
            else torch.optim.AdamW(self.model.parameters(), lr=training.learning_rate)
        )
        self.most = training.max_grad_norm
        self.examples = ready.prepared.examples
        self.padding = RightPadding(ready.tokenizer.pad_token_id)

    def step(self, rows: Sequence[int]) -> float:
        """Make a step and return the seconds taken."""
        began = time.perf_counter()
        batch = self.padding(
            [
                {
                    "input_ids": self.examples[row].tokens.tolist(),
                    "labels": self.examples[row].labels(),
                    ROWS: row,
                }
                for row in rows
            ]
        )
        loss = self.model(input_ids=batch["input_ids"], labels=batch["labels"]).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.most)
        self.optimizer.step()
        self.optimizer.zero_grad()
        loss.item()
        return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("base", type=Path)
    parser.add_argument("--recipe", default="tiny-cpu")
    parser.add_argument("--steps", type=int, default=60)
    options = parser.parse_args()
    _, recipe = load_recipe(options.recipe, [f"model.base={options.base}"])
    ready = make_ready(recipe, str(options.base), [options.data])
    bare = Bare(ready)
    lengths = [len(example.tokens) for example in ready.prepared.examples]
    ours: list[float] = []
    theirs: list[float] = []
    tokens: list[int] = []
    ended = time.perf_counter()

    def on_step(line: dict[str, Any], rows: Sequence[int]) -> None:
        nonlocal ended
        ours.append(time.perf_counter() - ended)
        theirs.append(bare.step(rows))
        tokens.append(sum(lengths[row] for row in rows))
        ended = time.perf_counter()
        if len(ours) >= options.steps + WARM:
            raise EnoughError

    with tempfile.TemporaryDirectory() as folder:
        training = recipe.training
        sizes = (training.sequences_per_device, training.accumulate)
        trainer = make_trainer(RunFolder(Path(folder)), ready, *sizes, (), on_step)
        with suppress(EnoughError):
            trainer.train()
    counted = sum(tokens[WARM:])
    ratio = median(bare / train for train, bare in zip(ours[WARM:], theirs[WARM:], strict=True))
    parameters = sum(weight.numel() for weight in bare.model.parameters())
    print(
        f"{parameters:,} parameters, {len(ours) - WARM} steps of {training.sequences_per_device} rows,"
        f" {counted:,} tokens, {torch.get_num_threads()} threads, load {os.getloadavg()[0]:.1f}"
    )
    print(f"train sft  {counted / sum(ours[WARM:]):8,.0f} tokens/s")
    print(f"bare loop  {counted / sum(theirs[WARM:]):8,.0f} tokens/s")
    print(f"ratio      {ratio:8.2f} (median over steps)")


if __name__ == "__main__":
    main()
