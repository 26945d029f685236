"""What a learner does with made-up rows: alone, or in several processes under torchrun.

python -m tests.support.training.learner_trial FILE [fail]
"""

from __future__ import annotations

import copy
import sys
from dataclasses import asdict, replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import torch

from mcp_bench.trainer.recipe import load_recipe
from mcp_bench.trainer.rl.credit.algorithms import Weighted
from mcp_bench.trainer.rl.credit.tokens import Row
from mcp_bench.trainer.rl.learner import Learner
from mcp_bench.trainer.rl.settings import RL
from mcp_bench.trainer.rl.together import follow, join, leave, split
from mcp_bench.trainer.sft import processes
from tests.support.training.tiny_checkpoints import qwen3

VOCABULARY = 64
SETTINGS = RL(row_tokens=64, learning_rate=1e-2, kl=0.1, warmup=0, min_p=0.01, minibatches=2)
STEPS = 3


def made_up(count: int) -> list[Weighted]:
    """Return rows of different lengths: each micro-batch has a few, and their number is odd."""
    draw = np.random.default_rng(0)
    rows = []
    for number in range(count):
        length = int(draw.integers(12, 40))
        sampled = np.arange(length) >= length // 2
        row = Row(
            tokens=draw.integers(0, VOCABULARY, length),
            sampled=sampled,
            logprobs=np.where(sampled, -4.2 + 0.1 * draw.standard_normal(length), 0).astype(np.float32),
            prompt=length // 2,
            answer=0,
        )
        good = number % 2 == 0
        rows.append(Weighted(row, rl=1.0 if good else -1.0, distillation=0.5, solved=good))
    return rows


def make_learner() -> Learner:
    """Return a learner with a teacher that differs from the policy."""
    torch.manual_seed(0)
    model: Any = qwen3(VOCABULARY)
    reference, teacher = copy.deepcopy(model), qwen3(VOCABULARY)
    for other in (reference, teacher):
        split(other.requires_grad_(requires_grad=False))
    if processes.count() > 1:  # as `train rl` does it there
        model.activation_checkpointing_enable({"use_reentrant": False})
        model.train()
    model = split(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=SETTINGS.learning_rate)
    return Learner(model, reference, optimizer, SETTINGS, max_grad_norm=1.0, teacher=teacher)


def course(learner: Learner) -> dict[str, Any]:
    """Learn, follow, go back to a state, and learn once more."""
    rows = made_up(13)
    found: dict[str, Any] = {"gap": asdict(learner.gap(rows))}
    found["figures"] = [asdict(learner.learn(rows, surrogate="clip", rate=1.0)) for _ in range(STEPS)]
    learner.follow(0.3)
    state = copy.deepcopy(learner.state(teacher=True))
    kept = {name: copy.deepcopy(state[name]) for name in ("model", "teacher")}
    broken = [replace(rows[0], rl=float("nan"))]
    try:
        learner.learn(broken, surrogate="clip", rate=1.0)
    except FloatingPointError as error:
        found["error"] = str(error)
    learner.learn(rows, surrogate="clip", rate=1.0)
    learner.restore(state)
    found["restored"] = {
        name: (kept["model"][name] - one).abs().max() for name, one in learner.weights().items()
    }
    found["last"] = asdict(learner.learn(rows, surrogate="clip", rate=1.0))
    return found | {"weights": learner.weights(), "teacher": kept["teacher"]}


def run_out_of_memory(learner: Learner) -> None:
    """Let the second micro-batch of an update fail, in this process alone."""
    real, calls = learner._backward, []

    def fail(*args: Any, **named: Any) -> Any:
        calls.append(args)
        if len(calls) == 2:
            raise torch.OutOfMemoryError("pretended")
        return real(*args, **named)

    learner._backward = fail  # type: ignore[method-assign]


def main(out: str, *options: str) -> None:
    """Write what the first process found; with `fail`, it fails within an update."""
    count = processes.count()
    hardware = SimpleNamespace(devices=count, device="cpu")
    join(cast(Any, SimpleNamespace(hardware=hardware)) if count > 1 else load_recipe("tiny-cpu-grpo")[1])
    learner = make_learner()
    try:
        if processes.rank() > 0:
            follow(learner)
            return
        if "fail" in options:
            run_out_of_memory(learner)
        torch.save(course(learner), out)
    finally:
        leave()


if __name__ == "__main__":
    main(*sys.argv[1:])
