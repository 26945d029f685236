"""Compare `mcp-bench train sft` with a bare PyTorch loop and with the machine's matrix products.

    python benchmarks/speed/training_speed.py DATA.jsonl BASE [--recipe R] [--set KEY=VALUE] [--steps 60]

DATA and BASE are an export and a base model, such as turn-1/train.jsonl and base in demo-out/loop-0 after
`make demo`. After each step of the trainer, the bare loop makes one with the same rows on a copy of the
model, so that other load affects both alike. The trainer's time includes everything between two steps:
fetching rows, checks, logging. The bare loop has the recipe's precision, checkpointing and optimizer, scores
trained tokens only, clips gradients, and does nothing else.

Between steps, matrices of the sizes of the model's MLP are multiplied, in 32 and in 16 bits. A training token
costs six operations for each parameter that it is multiplied with, and attention's share (Chinchilla,
https://arxiv.org/abs/2203.15556, appendix F). With checkpointing another forward pass is not counted as work.
`--profile` prints the operations of the trainer that took longest.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from statistics import median
from typing import Any

import torch

from mcp_bench.trainer.cpu_threads import limit_spinning
from mcp_bench.trainer.recipe import load_recipe
from mcp_bench.trainer.sft.model import load_model
from mcp_bench.trainer.sft.muon import MuonAdamW
from mcp_bench.trainer.sft.run_folder import RunFolder
from mcp_bench.trainer.sft.train import Ready, make_ready, make_trainer
from mcp_bench.trainer.sft.trainer_inputs import ROWS, RightPadding

WARM = 2
"""Warm-up steps that are not counted."""


class EnoughError(Exception):
    """Raised after the last step."""


class Bare:
    """A bare training loop."""

    def __init__(self, ready: Ready) -> None:
        training = ready.recipe.training
        self.model = load_model(ready.recipe, ready.tokenizer).train()
        if training.checkpointing != "off":
            self.model.activation_checkpointing_enable({"use_reentrant": False})
        rates = {"lr": training.learning_rate, "muon_lr": training.muon_learning_rate}
        self.optimizer: Any = (
            MuonAdamW(self.model, **rates, weight_decay=training.weight_decay)
            if training.optimizer == "muon"
            else torch.optim.AdamW(self.model.parameters(), lr=training.learning_rate, fused=True)
        )
        self.most = training.max_grad_norm
        self.sequences = training.sequences_per_device
        self.mixed = training.precision == "bf16-mixed"
        self.device = ready.recipe.hardware.device
        self.model.to(self.device)
        self.examples = ready.prepared.examples
        self.padding = RightPadding(ready.tokenizer.pad_token_id)

    def step(self, rows: Sequence[int]) -> float:
        """Make a step and return the seconds taken."""
        began = time.perf_counter()
        batches = list(self._batches(rows))
        scored = sum(int((batch["labels"][:, 1:] != -100).sum()) for batch in batches)
        for batch in batches:
            with torch.autocast(self.device, dtype=torch.bfloat16) if self.mixed else nullcontext():
                loss = self._loss(batch) / scored
            torch.autograd.backward(loss)
            loss.item()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.most)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return time.perf_counter() - began

    def _batches(self, rows: Sequence[int]) -> Iterator[dict[str, torch.Tensor]]:
        for start in range(0, len(rows), self.sequences):
            batch = []
            for row in rows[start : start + self.sequences]:
                example = self.examples[row]
                tokens = {"input_ids": example.tokens.tolist(), "labels": example.labels()}
                batch.append({**tokens, ROWS: row})
            yield {name: tensor.to(self.device) for name, tensor in self.padding(batch).items()}

    def _loss(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        hidden = self.model.base_model(input_ids=batch["input_ids"], use_cache=False).last_hidden_state
        scored = batch["labels"][:, 1:] != -100
        logits = self.model.lm_head(hidden[:, :-1][scored]).float()
        return torch.nn.functional.cross_entropy(logits, batch["labels"][:, 1:][scored], reduction="sum")


class Products:
    """Multiplies matrices of the sizes of the model's MLP: tokens x hidden x intermediate."""

    def __init__(self, model: Any, tokens: int, device: str) -> None:
        config = model.config.get_text_config()
        self.sizes = (tokens, config.hidden_size, config.intermediate_size)
        self.device = device
        self.seconds: dict[torch.dtype, list[float]] = {torch.float32: [], torch.bfloat16: []}
        self.pairs = {kind: self._pair(kind) for kind in self.seconds}

    def measure(self) -> None:
        for kind, (one, other) in self.pairs.items():
            for _ in range(3):
                began = time.perf_counter()
                (one @ other).sum().item()
                self.seconds[kind].append(time.perf_counter() - began)

    def rate(self, kind: torch.dtype) -> float:
        """Return the operations per second."""
        tokens, hidden, wide = self.sizes
        return float(2 * tokens * hidden * wide / median(self.seconds[kind]))

    def _pair(self, kind: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
        tokens, hidden, wide = self.sizes
        return (
            torch.randn(tokens, hidden, dtype=kind, device=self.device),
            torch.randn(hidden, wide, dtype=kind, device=self.device),
        )


def operations(model: Any, lengths: Sequence[int], scored: int) -> float:
    """Return the operations of a training step: six for each token and weight, and those of attention.

    Args:
        model: the model.
        lengths: the tokens of each row.
        scored: the tokens that the output head is computed for.
    """
    config = model.config.get_text_config()
    layers = sum(weight.numel() for weight in model.base_model.layers.parameters())
    heads = config.num_attention_heads * (config.head_dim or config.hidden_size // config.num_attention_heads)
    causal = sum(length * length / 2 for length in lengths)
    attention = 12 * config.num_hidden_layers * heads * causal
    weights = layers * sum(lengths) + config.vocab_size * config.hidden_size * scored
    return float(6 * weights + attention)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("base", type=Path)
    parser.add_argument("--recipe", default="tiny-cpu")
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument(
        "--profile", action="store_true", help="print the costliest operations of the trainer"
    )
    options = parser.parse_args()
    _, recipe = load_recipe(options.recipe, [f"model.base={options.base}", *options.overrides])
    ready = make_ready(recipe, str(options.base), [options.data])
    bare = Bare(ready)
    examples = ready.prepared.examples
    typical = int(median(len(example.tokens) for example in examples)) * recipe.training.sequences_per_device
    products = Products(bare.model, typical, recipe.hardware.device)
    ours: list[float] = []
    theirs: list[float] = []
    counted: list[list[int]] = []
    profile = torch.profiler.profile() if options.profile else None
    ended = time.perf_counter()

    def on_step(line: dict[str, Any], rows: Sequence[int]) -> None:
        nonlocal ended
        ours.append(time.perf_counter() - ended)
        if profile and len(ours) > WARM:
            profile.stop()
        theirs.append(bare.step(rows))
        counted.append(list(rows))
        products.measure()
        if len(ours) >= options.steps + WARM:
            raise EnoughError
        if profile and len(ours) >= WARM:
            profile.start()
        ended = time.perf_counter()

    with tempfile.TemporaryDirectory() as folder:
        training = recipe.training
        sizes = (training.sequences_per_device, training.accumulate)
        trainer = make_trainer(RunFolder(Path(folder)), ready, *sizes, (), on_step)
        with suppress(EnoughError):
            trainer.train()
    if profile:
        print(
            profile.key_averages().table(
                sort_by="self_cpu_time_total", row_limit=25, max_name_column_width=40
            )
        )
    _print(bare, products, ours[WARM:], theirs[WARM:], counted[WARM:], recipe)


def _print(
    bare: Bare,
    products: Products,
    ours: Sequence[float],
    theirs: Sequence[float],
    rows: Sequence[Sequence[int]],
    recipe: Any,
) -> None:
    lengths = [len(bare.examples[row].tokens) for step in rows for row in step]
    scored = sum(sum(bare.examples[row].trained) for step in rows for row in step)
    work = operations(bare.model, lengths, scored)
    parameters = sum(weight.numel() for weight in bare.model.parameters())
    training = recipe.training
    print(
        f"{parameters:,} parameters, {len(ours)} steps of {training.accumulate} x "
        f"{training.sequences_per_device} rows, {sum(lengths):,} tokens, {training.precision}, "
        f"{torch.get_num_threads()} threads, load {os.getloadavg()[0]:.1f}"
    )
    for kind in products.seconds:
        sizes = " x ".join(map(str, products.sizes))
        print(f"{f'products of {sizes}, {str(kind)[6:]}':<44}{products.rate(kind) / 1e9:10,.0f} GFLOP/s")
    for name, seconds in (("train sft", sum(ours)), ("bare loop", sum(theirs))):
        rate = work / seconds
        print(f"{name:<12}{sum(lengths) / seconds:10,.0f} tokens/s {rate / 1e9:10,.0f} GFLOP/s")
    ratio = median(other / own for own, other in zip(ours, theirs, strict=True))
    print(f"{'ratio':<12}{ratio:10.2f} (median over steps)")


if __name__ == "__main__":
    limit_spinning()
    main()
