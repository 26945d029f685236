"""What an update measures of a policy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from mcp_bench.trainer.rl.credit.algorithms import Weighted
from mcp_bench.trainer.rl.credit.loss import Surrogate
from mcp_bench.trainer.rl.learner import Learner
from tests.support.training.learner_trial import VOCABULARY, made_up, make_learner

pytestmark = pytest.mark.component


def test_the_divergence_is_that_of_whole_distributions() -> None:
    learner, rows = make_learner(), made_up(5)
    learner.settings = learner.settings.model_copy(update={"minibatches": 1})
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


def test_tokens_outside_of_the_bounds_are_counted_in_all_updates() -> None:
    """The first one begins where the attempts were sampled, so it has none."""
    learner = make_learner()
    [row] = made_up(1)
    logprobs = row.row.logprobs.copy()
    logprobs[row.row.sampled] = _chosen(learner, row)
    fair = replace(row, row=replace(row.row, logprobs=logprobs), rl=1.0, distillation=0.0)
    shares = []
    for updates in (1, 8):
        learner = make_learner()
        learner.settings = learner.settings.model_copy(update={"minibatches": 1, "updates": updates})
        shares.append(learner.learn([fair], surrogate="clip", rate=20.0).clipped)
    assert shares[0] == 0 < shares[1]


@pytest.mark.parametrize(("surrogate", "share"), [("clip", 1.0), ("cispo", 0.5), ("gspo", 0.0)])
def test_the_bounds_are_those_of_the_loss(surrogate: Surrogate, share: float) -> None:
    """Of single tokens on both sides or above only, or of whole rows: here their ratios cancel out."""
    learner = make_learner()
    learner.settings = learner.settings.model_copy(update={"minibatches": 1, "min_p": 0.0})
    [row] = made_up(1)
    chosen = _chosen(learner, row)
    assert len(chosen) % 2 == 0
    logprobs = row.row.logprobs.copy()
    logprobs[row.row.sampled] = chosen + np.resize(np.array([0.5, -0.5], np.float32), len(chosen))
    moved = replace(row, row=replace(row.row, logprobs=logprobs), distillation=0.0)
    assert learner.learn([moved], surrogate=surrogate, rate=1.0).clipped == share


def test_minibatches_are_updates_of_their_own() -> None:
    """The mismatch is that before all of them: later ones differ from the engine on purpose."""
    rows = [replace(one, distillation=0.0) for one in made_up(5)]
    parts, whole = make_learner(), make_learner()
    parts.settings = whole.settings.model_copy(update={"minibatches": 2})
    whole.settings = whole.settings.model_copy(update={"minibatches": 1})
    found = parts.learn(rows, surrogate="clip", rate=1.0)
    first, second = (whole.learn(rows[at::2], surrogate="clip", rate=1.0) for at in (0, 1))
    for name, weight in parts.weights().items():
        torch.testing.assert_close(weight, whole.weights()[name])
    assert found.tokens == first.tokens + second.tokens
    assert found.mismatch == pytest.approx(first.mismatch) != pytest.approx(second.mismatch)
    assert found.kl == pytest.approx((first.kl * first.tokens + second.kl * second.tokens) / found.tokens)


def test_more_minibatches_than_rows() -> None:
    learner = make_learner()
    learner.settings = learner.settings.model_copy(update={"minibatches": 9})
    rows = made_up(2)
    assert learner.learn(rows, surrogate="clip", rate=1.0).tokens == sum(
        one.row.sampled.sum() for one in rows
    )


def test_a_choice_that_min_p_leaves_alone_is_not_learned_from() -> None:
    """With a share near 1, only the likeliest token and the one that was sampled remain."""
    [row] = made_up(1)
    learner = make_learner()
    learner.settings = learner.settings.model_copy(update={"min_p": 0.999, "minibatches": 1, "kl": 0.0})
    ids = torch.from_numpy(row.row.tokens)[None]
    with torch.no_grad():
        likeliest = learner.model(input_ids=ids).logits[0].argmax(-1).numpy()
    last = np.arange(len(row.row.tokens)) == len(row.row.tokens) - 1
    tokens = np.where(last, likeliest[len(last) - 2], row.row.tokens)
    alone = replace(row.row, tokens=tokens, sampled=last, logprobs=np.zeros(len(last), np.float32))
    found = learner.learn([replace(row, row=alone, distillation=0.0)], surrogate="clip", rate=1.0)
    assert found.gradient == 0 and found.mismatch == 0
    both = replace(
        alone,
        tokens=np.where(last, (tokens + 1) % VOCABULARY, tokens),
        logprobs=np.full(len(last), -1.4, np.float32),
    )
    found = learner.learn([replace(row, row=both, distillation=0.0)], surrogate="clip", rate=1.0)
    assert found.gradient > 0


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


@torch.no_grad()
def _chosen(learner: Learner, one: Weighted) -> NDArray[np.float32]:
    """Return the log-probabilities of the sampled tokens, as the engine gives them."""
    ids = torch.from_numpy(one.row.tokens)[None]
    logits = learner.model(input_ids=ids).logits[0, :-1] / learner.settings.temperature
    found = logits.log_softmax(-1).gather(1, ids[0, 1:, None])[:, 0]
    return found[torch.from_numpy(one.row.sampled[1:])].numpy()
