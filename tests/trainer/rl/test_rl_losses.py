"""The losses of policy updates, compared with TRL's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from mcp_bench.trainer.rl.credit.loss import (
    Clipping,
    distillation_loss,
    kl_loss,
    policy_loss,
    row_means,
    trusted,
)

pytestmark = pytest.mark.component

ROWS, PROMPT, ANSWER, VOCABULARY = 4, 3, 7, 32
LENGTHS = (7, 4, 2, 6)


def tiny_model() -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 1}
    return LlamaForCausalLM(LlamaConfig(vocab_size=VOCABULARY, num_key_value_heads=1, **sizes)).eval()


@pytest.fixture
def inputs() -> dict[str, Tensor]:
    random = torch.Generator().manual_seed(1)
    mask = torch.tensor([[1] * length + [0] * (ANSWER - length) for length in LENGTHS])
    return {
        "prompt_ids": torch.randint(VOCABULARY, (ROWS, PROMPT), generator=random),
        "prompt_mask": torch.ones(ROWS, PROMPT, dtype=torch.int64),
        "completion_ids": torch.randint(VOCABULARY, (ROWS, ANSWER), generator=random),
        "completion_mask": mask,
        "advantages": torch.tensor([1.0, -1.0, 0.5, -0.25]),
        "old_per_token_logps": torch.randn(ROWS, ANSWER, generator=random) * 0.4 - 3.4,
        "num_items_in_batch": mask.sum(),
    }


def ours(model: Any, inputs: dict[str, Tensor], surrogate: Any, above: float) -> Tensor:
    ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], dim=1)
    logits = model(input_ids=ids).logits[:, PROMPT - 1 : -1]
    every = logits.log_softmax(-1).gather(2, inputs["completion_ids"][:, :, None])[:, :, 0]
    chosen = inputs["completion_mask"].bool()
    rows = chosen.nonzero()[:, 0]
    logprobs, before = every[chosen], inputs["old_per_token_logps"][chosen]
    each = policy_loss(
        logprobs, before, inputs["advantages"][rows], rows, surrogate=surrogate,
        clipping=Clipping(0.2, above),
    )  # fmt: skip
    return row_means(each, rows).mean() if surrogate == "gspo" else each.mean()


@pytest.mark.parametrize(
    ("surrogate", "loss_type", "level"),
    [
        ("clip", "dapo", "token"),
        ("cispo", "cispo", "token"),
        ("gspo", "grpo", "sequence"),
    ],
)
def test_losses_and_gradients_are_those_of_trl(
    surrogate: str, loss_type: str, level: str, inputs: dict[str, Tensor], tmp_path: Path
) -> None:
    from trl import GRPOConfig, GRPOTrainer

    from tests.support.training.tiny_checkpoints import make_tokenizer, template

    settings = GRPOConfig(
        output_dir=str(tmp_path), loss_type=loss_type, importance_sampling_level=level, epsilon=0.2,
        # TRL's CISPO takes the bound itself, ours its distance from 1 as for the others
        epsilon_high=1.28 if surrogate == "cispo" else 0.28, beta=0.0, report_to="none", use_cpu=True, bf16=False,
        gradient_checkpointing=None, activation_checkpointing=False,
        per_device_train_batch_size=ROWS, num_generations=ROWS, max_completion_length=ANSWER,
    )  # fmt: skip
    rows = [{"prompt": "x"}] * ROWS
    import datasets

    trainer = GRPOTrainer(
        tiny_model(), lambda completions, **_: [0.0] * len(completions), args=settings,
        train_dataset=datasets.Dataset.from_list(rows), processing_class=make_tokenizer(template("qwen3")),
    )  # fmt: skip
    theirs = trainer.model.eval()
    expected = trainer.compute_loss(theirs, inputs)
    expected.backward()
    model = tiny_model()
    found = ours(model, inputs, surrogate, 0.28)
    found.backward()
    torch.testing.assert_close(found, expected)
    for (name, mine), other in zip(model.named_parameters(), theirs.parameters(), strict=True):
        assert mine.grad is not None and other.grad is not None
        torch.testing.assert_close(mine.grad, other.grad, msg=name)


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("top", [None, 5])
def test_the_divergence_from_a_teacher_is_that_of_trl(
    alpha: float, top: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")  # it warns when it is imported first
    from trl.experimental.sdpo import loss_utils as theirs

    random = torch.Generator().manual_seed(3)
    student = (2 * torch.randn(ANSWER, VOCABULARY, generator=random)).requires_grad_()
    teacher = 2 * torch.randn(ANSWER, VOCABULARY, generator=random)
    if top is None:
        expected = theirs.compute_full_logit_self_distillation_loss(
            student, teacher, distillation_alpha=alpha
        )
    else:
        expected = theirs.compute_topk_self_distillation_loss(
            student, teacher, distillation_topk=top, distillation_alpha=alpha, distillation_add_tail=True
        )
    found = distillation_loss(student, teacher, alpha=alpha, top=top)
    torch.testing.assert_close(found, expected)
    [mine], [other] = (torch.autograd.grad(one.sum(), student) for one in (found, expected))
    torch.testing.assert_close(mine, other)


def test_a_padded_vocabulary_has_the_same_divergence() -> None:
    student, teacher = torch.randn(2, 3, 8, generator=torch.Generator().manual_seed(1))
    padded = torch.cat([teacher, torch.full((3, 4), 9.0)], dim=1)
    torch.testing.assert_close(distillation_loss(student, padded), distillation_loss(student, teacher))


def test_the_kl_estimate_is_zero_only_for_equal_probabilities() -> None:
    now, then = torch.tensor([-1.0, -2.0, -3.0]), torch.tensor([-1.0, -1.0, -4.0])
    assert (kl_loss(now, then) > 0).tolist() == [False, True, True]


def test_the_kl_estimate_has_the_divergence_as_its_mean() -> None:
    p, q = torch.tensor([0.7, 0.2, 0.1]), torch.tensor([0.5, 0.25, 0.25])
    torch.testing.assert_close((p * kl_loss(p.log(), q.log())).sum(), (p * (p / q).log()).sum())


def test_the_kl_estimate_never_pushes_away_from_the_reference() -> None:
    """Also not for a token that a grammar forced, which the reference finds e^25 times as probable."""
    now = torch.tensor([-30.0, -19.0, -2.0], requires_grad=True)
    kl_loss(now, torch.tensor([-5.0, -5.0, -2.0])).sum().backward()  # type: ignore[no-untyped-call]
    assert now.grad is not None and (now.grad <= 0).all() and now.grad[0] == 0


def test_tokens_that_engine_and_trainer_see_differently_are_left_out() -> None:
    now, then = torch.tensor([0.9, 0.5, 0.01]).log(), torch.tensor([0.6, 0.45, 0.2]).log()
    assert trusted(now, then, 0.2).tolist() == [False, True, True]


@pytest.mark.parametrize("surrogate", ["clip", "gspo", "cispo"])
@pytest.mark.parametrize("advantage", [-1.0, 0.0, 1.0])
def test_a_token_that_was_nearly_impossible_has_a_finite_loss(surrogate: Any, advantage: float) -> None:
    """A grammar can force such a token, and imitation then makes it likely."""
    now = torch.tensor([-0.1], requires_grad=True)
    loss = policy_loss(
        now, torch.tensor([-100.0]), torch.tensor([advantage]), torch.tensor([0]), surrogate=surrogate
    ) + kl_loss(torch.tensor([-100.0]), now)
    loss.sum().backward()  # type: ignore[no-untyped-call]
    assert bool(loss.isfinite().all()) and now.grad is not None and bool(now.grad.isfinite().all())


def test_the_mean_of_a_row_is_over_its_tokens() -> None:
    found = row_means(torch.tensor([1.0, 3.0, 5.0]), torch.tensor([0, 0, 2]))
    assert found.tolist() == [2.0, 0.0, 5.0]
