"""Weights of turns: in the rows, in the tokens, and in the loss."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy

from mcp_bench.servers.errors import WrongUseError
from mcp_bench.trainer.recipe import load_recipe
from mcp_bench.trainer.rows import BrokenRowsError, read_rows
from mcp_bench.trainer.sft.run_folder import RunFolder
from mcp_bench.trainer.sft.train import Ready, make_ready, make_trainer
from mcp_bench.trainer.sft.trainer_inputs import WEIGHTS
from tests.support.training.short_training import rows, save_tokenizer, settings, write_rows

pytestmark = pytest.mark.component


def two_turns(*weights: float | None) -> dict[str, Any]:
    """Return a row with a turn for each weight."""
    [row] = rows(1)
    question, call = row["messages"]
    result = {"role": "tool", "tool_call_id": "c", "content": "Nobody."}
    messages = [question]
    for weight in weights:
        messages += [{**call, **({} if weight is None else {"weight": weight})}, result]
    return {**row, "messages": [*messages, {"role": "assistant", "content": "Done."}]}


def ready_for(folder: Path, *data: dict[str, Any], **changed: object) -> Ready:
    tokenizer = save_tokenizer(folder / "tokenizer")
    _, recipe = load_recipe("tiny-cpu", settings(**changed)[1::2])
    return make_ready(recipe, str(tokenizer), [write_rows(folder / "rows.jsonl", list(data))])


def test_the_loss_of_a_turn_is_weighted(tmp_path: Path) -> None:
    """The loss is the weighted sum over all trained tokens; a turn of weight 0 has no trained token."""
    ready = ready_for(tmp_path, two_turns(0.25, None), two_turns(0.0, 0.5), two_turns(None))
    trainer = make_trainer(RunFolder(tmp_path / "run"), ready, 4, 1, (), lambda *_: None)
    batch = trainer.data_collator([trainer.train_dataset[number] for number in range(3)])
    weights = batch[WEIGHTS].clone()
    assert {round(weight, 2) for weight in weights.unique().tolist()} == {0.0, 0.25, 0.5, 1.0}
    ids, labels = batch["input_ids"], batch["labels"]
    assert bool((labels[weights == 0] == -100).all())
    model = trainer.model.eval()
    with torch.no_grad():
        found = trainer.compute_loss(model, dict(batch) | {"rows": None})
        logits = model(input_ids=ids, attention_mask=batch["attention_mask"]).logits[:, :-1]
        losses = cross_entropy(logits.transpose(1, 2), labels[:, 1:], ignore_index=-100, reduction="none")
    count = (labels[:, 1:] != -100).sum()
    assert found.item() == pytest.approx(((losses * weights[:, 1:]).sum() / count).item(), rel=1e-4)
    assert found.item() < (losses.sum() / count).item() - 0.1


def test_each_token_has_the_weight_of_its_turn(tmp_path: Path) -> None:
    ready = ready_for(tmp_path, two_turns(0.25, None), two_turns(1, 0))
    [weighted, masked] = ready.prepared.examples
    assert weighted.weights is not None
    text = [
        ready.tokenizer.decode([t for t, w in zip(weighted.tokens, weighted.weights, strict=True) if w == of])
        for of in (0.25, 1.0)
    ]
    assert (text[0].count("find"), text[1].count("<tool_call>find")) == (1, 1)
    assert masked.weights is None  # only 0 and 1: masked tokens need no weights
    assert masked.masked > 0


def test_a_wrong_weight_is_named(tmp_path: Path) -> None:
    for weight in ("1", -1, 2, True):
        bad = write_rows(tmp_path / "bad.jsonl", [two_turns(weight)])  # type: ignore[arg-type]
        with pytest.raises(BrokenRowsError, match=r"weight is .*, not a number from 0 to 1"):
            read_rows([bad])
    assert json.loads(bad.read_text())["messages"][1]["weight"] is True


def test_weights_cannot_be_packed(tmp_path: Path) -> None:
    with pytest.raises(WrongUseError, match=r"cannot be used with data\.packing"):
        ready_for(tmp_path, two_turns(0.5), data__packing=True, data__group_by_length=False)
    ready_for(tmp_path, two_turns(0.0), data__packing=True, data__group_by_length=False)
