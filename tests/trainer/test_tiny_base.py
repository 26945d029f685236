"""The very small base model: its tokens, the text it learns from, and that it can be trained further."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from short_training import curve, rows, write_rows

from mcp_bench.trainer.cli.train import train
from mcp_bench.trainer.rows import Row
from mcp_bench.trainer.tiny.base_model import examples, words
from mcp_bench.trainer.tiny.recall_text import RecallText
from mcp_bench.trainer.tiny.tokenizer import make_tokenizer


@cache
def made_rows() -> list[Row]:
    return [Row("a:1", row["messages"], row["tools"]) for row in rows(48)]


@cache
def tokenizer() -> Any:
    return make_tokenizer(made_rows(), 400)


@settings(deadline=None)  # the first one makes the tokenizer
@given(st.text(max_size=60))
def test_any_text_comes_back_from_its_tokens(text: str) -> None:
    ids = tokenizer().encode(text, add_special_tokens=False)
    assert tokenizer().decode(ids) == text


@settings(deadline=None)
@given(st.from_regex(r"[A-Za-z]{1,12}( [A-Za-z]{1,12})?", fullmatch=True))
def test_a_name_has_the_same_tokens_wherever_it_stands(name: str) -> None:
    alone = tokenizer().encode(name, add_special_tokens=False)
    for around in ("Who is {}?", '{{"name":"{}","x":1}}', "a: {}, b", "7{}_9"):
        ids = tokenizer().encode(around.format(name), add_special_tokens=False)
        assert any(ids[at : at + len(alone)] == alone for at in range(len(ids))), around


@settings(deadline=None)
@given(st.integers(0, 10**6))
def test_every_answer_stands_above_it_and_nothing_is_a_call(seed: int) -> None:
    text = RecallText(seed, ["alpha", "beta"])
    for _ in range(5):
        above = ""
        for piece, learned in text.draw():
            assert "tool_call" not in piece
            if learned:
                for word in re.findall(r"\w+", piece):
                    assert word in above
            above += piece


def test_text_is_cut_to_one_length_and_only_answers_are_learned() -> None:
    drawn = examples(RecallText(0, words(made_rows())), tokenizer(), 64)
    learned = []
    for _ in range(50):
        example = next(drawn)
        assert len(example.tokens) == len(example.trained) == 64
        learned.append(sum(example.trained))
    assert 0 < sum(learned) < 50 * 32


def test_a_base_is_made_and_fine_tuned_by_the_recipe(tmp_path: Path) -> None:
    data = write_rows(tmp_path / "train.jsonl", rows(16))
    run(["tiny-base", "--data", data, "--out", tmp_path / "base", "--steps", "2"])
    config = json.loads((tmp_path / "base" / "config.json").read_text())
    assert config["rope_parameters"]["rope_theta"] == 10_000.0
    sft = ["sft", "tiny-cpu", "--data", data, "--out", tmp_path / "run"]
    run([*sft, "--set", f"model.base={tmp_path / 'base'}", "--set", "training.epochs=4"])
    losses = [loss for _, loss, _ in curve(tmp_path / "run")]
    assert losses[-1] < losses[0]
    again = CliRunner().invoke(train, ["tiny-base", "--data", str(data), "--out", str(tmp_path / "base")])
    assert "is not empty" in str(again.exception)


def run(arguments: list[object]) -> None:
    result = CliRunner().invoke(train, [str(word) for word in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
