"""Batches that begin alike have the loss, the gradient and the weights of whole rows, at less cost."""

from __future__ import annotations

from array import array
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from mcp_bench.servers.errors import WrongUseError
from mcp_bench.trainer.cli.train import train
from mcp_bench.trainer.recipe import load_recipe
from mcp_bench.trainer.refusals import refusals, refuse
from mcp_bench.trainer.sft.run_folder import RunFolder
from mcp_bench.trainer.sft.shared_prefix import BLOCK, GROUPS, SimilarBeginnings, common_prefix, groups_of
from mcp_bench.trainer.sft.train import Ready, make_ready, make_trainer
from tests.support.training.short_training import curve, rows, save_tokenizer, settings, write_rows

pytestmark = pytest.mark.component

SHARED = {"data__shared_prefix": True, "training__checkpointing": "off"}


def alike(count: int, *, weight: float | None = None) -> list[dict[str, Any]]:
    """Return rows with one long list of tools; the answer of every second one has a weight."""
    made = rows(count)
    for number, row in enumerate(made):
        row["tools"][0]["function"]["description"] = "Find a person by name. " * 4
        if weight is not None and number % 2:
            row["messages"][-1]["weight"] = weight
    return made


def ready_for(folder: Path, data: list[dict[str, Any]], **changed: object) -> Ready:
    tokenizer = save_tokenizer(folder / "tokenizer")
    _, recipe = load_recipe("tiny-cpu", settings(**changed)[1::2])
    refuse(refusals(recipe))
    return make_ready(recipe, str(tokenizer), [write_rows(folder / "rows.jsonl", data)])


def gradients(folder: Path, ready: Ready, count: int) -> tuple[float, dict[str, torch.Tensor], Any]:
    """Return the loss of a batch with the first rows, its gradients, and the batch."""
    trainer = make_trainer(RunFolder(folder), ready, 4, 1, (), lambda *_: None)
    batch = trainer.data_collator([trainer.train_dataset[number] for number in range(count)])
    loss = trainer.compute_loss(trainer.model.train(), dict(batch) | {"rows": None})
    loss.backward()
    return loss.item(), {name: p.grad for name, p in trainer.model.named_parameters()}, batch


@pytest.mark.parametrize(("layers", "weight"), [(1, None), (3, 0.25)])
def test_the_loss_and_the_gradient_are_those_of_whole_rows(
    tmp_path: Path, layers: int, weight: float | None
) -> None:
    data = alike(3, weight=weight)
    changed: dict[str, object] = {"model__architecture__num_hidden_layers": layers}
    loss, whole, _ = gradients(tmp_path / "a", ready_for(tmp_path, data, **changed), 3)
    shared_loss, shared, batch = gradients(tmp_path / "b", ready_for(tmp_path, data, **changed, **SHARED), 3)
    [group] = batch[GROUPS].tolist()
    assert group[:2] == [0, 3]
    assert group[2] > BLOCK
    assert shared_loss == pytest.approx(loss, rel=1e-5)
    for name, gradient in whole.items():
        torch.testing.assert_close(shared[name], gradient, rtol=1e-3, atol=1e-6)


def test_a_run_learns_what_one_without_it_learns(tmp_path: Path) -> None:
    """Four rows a step, all in one batch, so that both runs see the same rows in each step."""
    data = write_rows(tmp_path / "rows.jsonl", alike(4))
    tokenizer = save_tokenizer(tmp_path / "tokenizer")
    curves = []
    for name, more in (("whole", {"training__checkpointing": "off"}), ("shared", SHARED)):
        out = tmp_path / name
        options = settings(training__epochs=6, **more)
        arguments = ["sft", "tiny-cpu", "--data", data, "--tokenizer", tokenizer, "--out", out, *options]
        result = CliRunner().invoke(train, [str(word) for word in arguments], catch_exceptions=False)
        assert result.exit_code == 0, result.output
        curves.append([loss for _, loss, _ in curve(out)])
    whole, shared = curves
    assert len(whole) == 6
    assert whole[-1] < whole[0] - 0.1
    assert shared == pytest.approx(whole, rel=1e-3)


@given(
    rows=st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=12), min_size=2, max_size=5),
    same=st.integers(0, 2 * BLOCK),
    trained=st.integers(0, 3 * BLOCK),
)
def test_a_common_prefix_is_common_and_not_trained_on(rows: list[list[int]], same: int, trained: int) -> None:
    tokens = [[7] * same + row for row in rows]
    labels = [[t if at >= trained else -100 for at, t in enumerate(row)] for row in tokens]
    shared = common_prefix(tokens, labels)
    assert shared == 0 or BLOCK <= shared < min(map(len, tokens))
    assert len({tuple(row[:shared]) for row in tokens}) == 1
    assert all(label == -100 for row in labels for label in row[: shared + 1] if shared)
    if same >= BLOCK and trained > same:
        assert shared >= min(same, min(map(len, tokens)) - 1)


@given(
    beginnings=st.lists(st.sampled_from([1, 2, 3]), min_size=1, max_size=7), trained=st.integers(0, 3 * BLOCK)
)
def test_the_groups_of_a_batch_save_most(beginnings: list[int], trained: int) -> None:
    """Neighbours with one beginning are a group, unless it is trained on; each row is in one group."""
    tokens = [[one] * 2 * BLOCK + [row] * BLOCK for row, one in enumerate(beginnings)]
    labels = [[t if at >= trained else -100 for at, t in enumerate(row)] for row in tokens]
    groups = groups_of(tokens, labels)
    assert [row for group in groups for row in range(group.first, group.last)] == list(range(len(tokens)))
    saved = sum((group.last - group.first - 1) * group.shared for group in groups)
    same = min(2 * BLOCK, trained - 1)
    alike = sum(a == b for a, b in pairwise(beginnings))
    assert saved == (alike * same if same >= BLOCK else 0)


@given(
    groups=st.lists(st.integers(1, 9), min_size=1, max_size=6), batch=st.integers(2, 4), seed=st.integers(0)
)
def test_rows_that_begin_alike_are_in_one_batch(groups: list[int], batch: int, seed: int) -> None:
    """Each group's rows fill batches of their own but for what is left over, and every row comes once."""
    made = [array("i", [group] * BLOCK + [row]) for group, size in enumerate(groups) for row in range(size)]
    order = SimilarBeginnings(made, batch, seed)
    found = list(order)
    assert sorted(found) == list(range(len(made)))
    assert found == list(order)
    batches = [{made[row][0] for row in found[at : at + batch]} for at in range(0, len(found), batch)]
    assert sum(len(alike) - 1 for alike in batches) <= len(groups) - 1
    if len(made) > 20:
        order.set_epoch(1)
        assert list(order) != found


def test_what_cannot_share_is_refused(tmp_path: Path) -> None:
    changes: list[tuple[dict[str, object], str]] = [
        ({"training__sequences_per_device": 1}, "needs a batch"),
        ({"training__checkpointing": "on"}, "activation checkpointing"),
        ({"data__group_by_length": True}, r"data\.group_by_length combine"),
        ({"model__architecture__model_type": "qwen3_5_text"}, "full attention in every layer"),
        (
            {"model__architecture__model_type": "qwen3_moe", "model__architecture__num_experts": 4},
            r"the loss that balances experts .* \(qwen3_moe has 4 experts\)",
        ),
    ]
    for change, reason in changes:
        with pytest.raises(WrongUseError, match=reason):
            ready_for(tmp_path, alike(4), **{**SHARED, **change})
