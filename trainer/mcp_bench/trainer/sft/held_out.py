"""Held-out rows: how well the model predicts them while it learns.

A turn of the assistant counts as exact if each of its tokens is the most probable one, given all that was
recorded before it: decoding greedily, the model says just that. So settings can be compared without episodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from transformers import TrainerCallback

from mcp_bench.trainer.data import Example


@dataclass(frozen=True)
class Score:
    """How well the model predicts the assistant's tokens of the rows."""

    loss: float
    """The mean over these tokens, in nats."""
    turns: int
    exact_turns: int


def score(model: Any, examples: Sequence[Example], device: Any) -> Score:
    """Score a model of one of TRL's trainers, row by row. Its mode (training or not) stays as it is."""
    loss, tokens, turns, exact = 0.0, 0, 0, 0
    training = model.training
    model.eval()
    try:
        for example in examples:
            outputs = _outputs(model, example, device)
            trained = outputs.label_mask[0].bool().cpu()  # of shape (tokens - 1,), like the others
            right = outputs.is_top1[0].bool().cpu()[trained]
            loss -= outputs.log_probs.double().sum().item()
            tokens += len(right)
            first = trained & ~torch.cat([trained.new_zeros(1), trained[:-1]])
            turn = first.cumsum(0)[trained] - 1  # of each trained token
            wrong = torch.bincount(turn[~right], minlength=int(first.sum()))
            turns += len(wrong)
            exact += int((wrong == 0).sum())
    finally:
        model.train(training)
    return Score(loss / tokens, turns, exact)


@torch.no_grad()
def _outputs(model: Any, example: Example, device: Any) -> Any:
    ids, labels = (
        torch.tensor([values], device=device) for values in (example.tokens.tolist(), example.labels())
    )
    return model(
        input_ids=ids,
        labels=labels,
        attention_mask=torch.ones_like(ids),
        use_cache=False,
        fused_lm_head=True,  # TRL's: log-probabilities without the logits of all tokens
    )


class HeldOut(TrainerCallback):
    """Scores the model before the first step, after every so many, and after the last one."""

    def __init__(
        self, examples: Sequence[Example], every: int, on_score: Callable[[dict[str, Any]], None]
    ) -> None:
        """Keep the rows.

        Args:
            examples: the rows. Each process scores all of them.
            every: steps from one score to the next.
            on_score: called with the step and the fields of its `Score`.
        """
        self._examples = examples
        self._every = every
        self._on_score = on_score

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == 0:
            self._look(args, state, control, kwargs["model"])

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step % self._every == 0 or state.global_step == state.max_steps:
            self._look(args, state, control, kwargs["model"])

    def _look(self, args: Any, state: Any, control: Any, model: Any) -> None:
        own = control.should_log
        self._on_score({"step": state.global_step, **asdict(score(model, self._examples, args.device))})
        control.should_log = own  # the step is still to be logged, also if the score has been
