"""Held-out rows are scored while a model learns, and change nothing of what it learns."""

from __future__ import annotations

import json
from array import array
from io import StringIO
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mcp_bench.servers.errors import BenchError
from mcp_bench.trainer.data import Example, prepare
from mcp_bench.trainer.recipe import ModelSource
from mcp_bench.trainer.rows import read_rows
from mcp_bench.trainer.sft.held_out import score
from mcp_bench.trainer.sft.progress import Progress
from mcp_bench.trainer.templates import choose_templates
from mcp_bench.trainer.tokenizer import load_tokenizer
from tests.support.training.short_training import curve, rows, save_tokenizer, settings, sft, write_rows

pytestmark = pytest.mark.system
TOKENS = st.lists(st.tuples(st.booleans(), st.booleans(), st.floats(-9, 0)), min_size=1, max_size=30)

LONG = {"messages": [{"role": "user", "content": "z" * 600}, {"role": "assistant", "content": "Yes."}]}


class Scripted:
    """A model that is right where its script says so, with the log-probabilities of the script."""

    training = True

    def __init__(self, script: dict[int, list[tuple[bool, bool, float]]]) -> None:
        self.script = script

    def eval(self) -> None:
        self.training = False

    def train(self, mode: bool) -> None:
        self.training = mode

    def __call__(self, input_ids: torch.Tensor, labels: torch.Tensor, **_: Any) -> Any:
        assert not self.training
        trained, right, chances = zip(*self.script[int(input_ids[0, 0])], strict=True)
        mask = labels[:, 1:] != -100
        assert mask[0].tolist() == list(trained)
        return SimpleNamespace(
            label_mask=mask,
            is_top1=torch.tensor([right]) & mask,
            log_probs=torch.tensor([chances]) * mask,
        )


@given(st.lists(TOKENS.filter(lambda row: any(token[0] for token in row)), min_size=1, max_size=5))
def test_a_turn_is_exact_if_all_its_tokens_are(made: list[list[tuple[bool, bool, float]]]) -> None:
    """A turn is a run of trained tokens; the first token of a row is predicted by nothing."""
    examples = [
        Example(
            f"row {number}", array("i", [number] * (len(row) + 1)), bytes([0, *(token[0] for token in row)])
        )
        for number, row in enumerate(made)
    ]
    model = Scripted(dict(enumerate(made)))
    found = score(model, examples, "cpu")
    turns = [
        [token[1] for token in run]
        for row in made
        for trained, run in groupby(row, key=lambda token: token[0])
        if trained
    ]
    losses = [-token[2] for row in made for token in row if token[0]]
    assert (found.turns, found.exact_turns) == (len(turns), sum(map(all, turns)))
    assert found.loss == pytest.approx(sum(losses) / len(losses), abs=1e-5)
    assert model.training


def test_rows_are_scored_while_a_model_learns(tmp_path: Path) -> None:
    data = write_rows(tmp_path / "train.jsonl", rows())
    held_out = write_rows(tmp_path / "held-out.jsonl", [*rows()[:3], LONG])
    tokenizer = save_tokenizer(tmp_path / "tokenizer")
    same = ["tiny-cpu", "--data", data, "--tokenizer", tokenizer, *settings(training__epochs=4)]
    sft(*same, "--out", tmp_path / "plain")
    out = tmp_path / "scored"
    scored = ["--eval-data", held_out, "--set", "training.eval_every=5"]
    done = sft(*same, *scored, "--out", out, "--json")

    assert "\n3 held-out rows; dropped: 1 too long, 0 without trainable tokens\n" in done.stderr
    assert curve(out) == curve(tmp_path / "plain")
    weights = [run / "model" / "model.safetensors" for run in (out, tmp_path / "plain")]
    assert weights[0].read_bytes() == weights[1].read_bytes()
    scores = [json.loads(line) for line in (out / "evaluations.jsonl").read_text().splitlines()]
    assert [one["step"] for one in scores] == [0, 5, 10, 12]
    assert scores[-1]["loss"] < scores[0]["loss"]
    assert json.loads(done.stdout)["held_out"] == scores[-1]

    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(out / "model")
    loaded = load_tokenizer(str(out / "model"))
    templates = choose_templates(loaded, ModelSource(base=str(out / "model")))
    examples = prepare(read_rows([held_out]), loaded, templates, 512).examples
    losses, tokens = 0.0, 0
    for example in examples:
        labels = torch.tensor([example.labels()])
        loss = model(input_ids=torch.tensor([example.tokens.tolist()]), labels=labels).loss.item()
        losses, tokens = losses + loss * sum(example.trained), tokens + sum(example.trained)
    assert scores[-1]["loss"] == pytest.approx(losses / tokens, rel=1e-4)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param(None, "held-out.jsonl", id="a file that is not there"),
        pytest.param("{}\n", "held-out.jsonl:1", id="a row that is broken"),
        pytest.param(json.dumps(LONG), "^--eval-data: no rows left: 1 are over", id="no row that fits"),
    ],
)
def test_bad_rows_are_named_before_training(content: str | None, words: str, tmp_path: Path) -> None:
    data = write_rows(tmp_path / "train.jsonl", rows())
    held_out, out = tmp_path / "held-out.jsonl", tmp_path / "run"
    if content is not None:
        held_out.write_text(content)
    tokenizer = save_tokenizer(tmp_path / "tokenizer")
    more = ("--data", data, "--tokenizer", tokenizer, "--out", out, *settings())
    with pytest.raises(BenchError, match=words):
        sft("tiny-cpu", *more, "--eval-data", held_out)
    assert not out.exists()


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def test_a_score_has_a_line_of_its_own() -> None:
    """On a terminal, it takes the place of the live line, which comes back with the next step."""
    for out in (StringIO(), Terminal()):
        progress = Progress(out, on_gpu=False)
        progress.step(5, 12, 1.25, 100)
        progress.note("step 5: held-out loss 1.5000")
        progress.step(12, 12, 1.0, 100)
        lines = [line.rpartition("\x1b[2K")[2] for line in out.getvalue().rstrip().split("\n")]
        assert lines[-2] == "step 5: held-out loss 1.5000"
        assert lines[-1].startswith("step 12/12  loss 1.0000")
