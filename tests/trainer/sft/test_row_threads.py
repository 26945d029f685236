"""Rows that are computed at the same time teach what they teach one after the other."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner

from mcp_bench.servers.errors import WrongUseError
from mcp_bench.trainer.cli.train import train
from mcp_bench.trainer.recipe import load_recipe
from mcp_bench.trainer.refusals import refuse
from mcp_bench.trainer.sft.row_threads import RowThreads, rows_of
from tests.support.training.short_training import curve, rows, save_tokenizer, settings, write_rows

pytestmark = pytest.mark.component

ONE_BY_ONE = {"training__sequences_per_device": 1, "training__accumulate": 2}
AT_ONCE = {"training__sequences_per_device": 2, "training__row_threads": 2}


def uneven_rows() -> list[dict[str, Any]]:
    """Return rows of different lengths; the answer of every third one has a weight."""
    made = rows(8)
    for number, row in enumerate(made):
        row["messages"][0]["content"] += " Please." * number
        if number % 3 == 0:
            row["messages"][-1]["weight"] = 0.25
    return made


def run_of(folder: Path, data: Path, tokenizer: Path, changed: dict[str, object]) -> tuple[Any, bytes]:
    """Train, and return the curve and the weights."""
    options = settings(training__epochs=3, **changed)
    arguments = ["sft", "tiny-cpu", "--data", data, "--tokenizer", tokenizer, "--out", folder, *options]
    result = CliRunner().invoke(train, [str(word) for word in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return curve(folder), (folder / "model" / "model.safetensors").read_bytes()


def test_a_run_learns_what_one_row_at_a_time_teaches(tmp_path: Path) -> None:
    data, tokenizer = (
        write_rows(tmp_path / "rows.jsonl", uneven_rows()),
        save_tokenizer(tmp_path / "tokenizer"),
    )
    plain, _ = run_of(tmp_path / "plain", data, tokenizer, ONE_BY_ONE)
    first, weights = run_of(tmp_path / "first", data, tokenizer, AT_ONCE)
    again, same_weights = run_of(tmp_path / "again", data, tokenizer, AT_ONCE)
    assert len(plain) == 12
    assert plain[-1][1] < plain[0][1] - 0.05
    for one, other in zip(plain, first, strict=True):
        assert other == pytest.approx(one, rel=1e-3)
    assert again == first
    assert same_weights == weights


def test_a_row_ends_at_its_last_trained_token() -> None:
    batch = {
        "input_ids": torch.tensor([[1, 2, 3, 0], [4, 5, 6, 7]]),
        "labels": torch.tensor([[-100, 2, -100, -100], [-100, -100, -100, -100]]),
    }
    first, second = rows_of(batch)
    assert first["input_ids"].tolist() == [[1, 2]]
    assert first["labels"].tolist() == [[-100, 2]]
    assert second["input_ids"].tolist() == [[4, 5, 6, 7]]


def test_rows_are_computed_at_the_same_time_with_a_share_of_the_cores() -> None:
    both = threading.Barrier(2, timeout=60)
    mine = torch.get_num_threads()
    seen = []

    def compute(row: dict[str, Any]) -> torch.Tensor:
        both.wait()
        seen.append(torch.get_num_threads())
        return row["labels"].sum()

    found = RowThreads(2).sum(compute, {"labels": torch.tensor([[1, 2], [3, 4]])})
    assert found.item() == 10
    assert seen == [max(1, mine // 2)] * 2
    assert torch.get_num_threads() == mine


def test_an_error_in_a_row_is_raised_when_no_other_row_is_being_computed() -> None:
    failed, done = threading.Event(), []

    def compute(row: dict[str, Any]) -> torch.Tensor:
        if row["labels"][0, 0] == 1:
            failed.set()
            raise MemoryError("no room")
        assert failed.wait(60)
        done.append(True)
        return row["labels"].sum()

    with pytest.raises(MemoryError, match="no room"):
        RowThreads(2).sum(compute, {"labels": torch.tensor([[1], [2]])})
    assert done


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"training__row_threads": 4}, r"row_threads \(4\) exceeds training.sequences_per_device \(2\)"),
        ({"data__shared_prefix": True}, "computes the rows of a batch together"),
        ({"hardware__device": "cuda"}, "row_threads is for CPUs"),
    ],
)
def test_what_cannot_work_is_refused(changed: dict[str, object], message: str) -> None:
    _, recipe = load_recipe(
        "tiny-cpu", settings(**{**AT_ONCE, "training__checkpointing": "off", **changed})[1::2]
    )
    with pytest.raises(WrongUseError, match=message):
        refuse(recipe)
