"""What an update measures of a policy."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from mcp_bench.trainer.rl.algorithms import Weighted
from mcp_bench.trainer.rl.learner import Learner
from tests.support.training.learner_trial import made_up, make_learner

pytestmark = pytest.mark.component


def test_the_divergence_is_that_of_whole_distributions() -> None:
    learner, rows = make_learner(), made_up(5)
    learner.learn(rows, surrogate="clip", rate=1.0)
    each = torch.cat([_divergences(learner, one) for one in rows])
    found = learner.learn(rows, surrogate="clip", rate=1.0)
    assert found.kl == pytest.approx(float(each.mean()), rel=1e-4)
    assert found.kl > 1e-3


def test_further_passes_are_not_compared_with_the_start() -> None:
    learner, rows = make_learner(), made_up(5)
    learner.settings = learner.settings.model_copy(update={"updates": 3, "kl": 0.0})
    calls: list[int] = []
    learner.reference.register_forward_hook(lambda *_: calls.append(1))
    once = [replace(one, distillation=0.0) for one in rows[:1]]
    learner.learn(once, surrogate="clip", rate=1.0)
    assert len(calls) == 1


@torch.no_grad()
def _divergences(learner: Learner, one: Weighted) -> torch.Tensor:
    """Return the divergence at each sampled token, without the learner's help."""
    ids = torch.from_numpy(one.row.tokens)[None]
    places = one.row.sampled[1:]
    ours, start = (
        model(input_ids=ids).logits[0, :-1][places].log_softmax(-1)
        for model in (learner.model, learner.reference)
    )
    return torch.nn.functional.kl_div(start, ours, reduction="none", log_target=True).sum(-1)
