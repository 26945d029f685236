"""The tiny base model: tokenizer, training text and fine-tuning."""

from __future__ import annotations

import json
import os
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_bench.servers.errors import WrongUseError
from mcp_bench.trainer.cli.train import train
from mcp_bench.trainer.rows import Row
from mcp_bench.trainer.tiny.base_model import example, syllables
from mcp_bench.trainer.tiny.recall_text import CUE, LARGEST, READ, SAID, Piece, RecallText
from mcp_bench.trainer.tiny.schedule import STAGES, Schedule
from mcp_bench.trainer.tiny.tokenizer import make_tokenizer
from tests.support.training.short_training import curve, rows, write_rows

pytestmark = pytest.mark.component


@cache
def made_rows() -> list[Row]:
    return [Row("a:1", row["messages"], row["tools"]) for row in rows(48)]


@cache
def tokenizer() -> Any:
    return make_tokenizer(made_rows(), 400)


@settings(deadline=None)  # the first example builds the tokenizer
@given(st.text(max_size=60))
def test_any_text_survives_tokenisation(text: str) -> None:
    ids = tokenizer().encode(text, add_special_tokens=False)
    assert tokenizer().decode(ids) == text


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"parameters": None},
        {"parameters": {"type": "object"}},
        {"parameters": {"type": "object", "properties": None}},
        {"description": None, "parameters": {}},
    ],
)
def test_a_tool_without_arguments_needs_no_properties(schema: dict[str, Any]) -> None:
    tool = {"type": "function", "function": {"name": "list_all", "description": "All of them.", **schema}}
    row = Row("a:1", [{"role": "user", "content": "Who is there?"}], [tool])
    text = make_tokenizer([row], 400).apply_chat_template(row.messages, tools=row.tools, tokenize=False)
    assert text.startswith("<|im_start|>tools\nlist_all() " + (tool["function"]["description"] or "") + "\n")


@settings(deadline=None)
@given(st.from_regex(r"[A-Za-z]{1,12}( [A-Za-z]{1,12})?", fullmatch=True))
def test_a_name_has_the_same_tokens_in_every_context(name: str) -> None:
    alone = tokenizer().encode(name, add_special_tokens=False)
    for around in ("Who is {}?", '{{"name":"{}","x":1}}', "a: {}, b", "7{}_9"):
        ids = tokenizer().encode(around.format(name), add_special_tokens=False)
        assert any(ids[at : at + len(alone)] == alone for at in range(len(ids))), around


@settings(deadline=None)
@given(st.integers(0, 10**6), st.integers(1, LARGEST))
def test_answers_occur_earlier_and_nothing_is_a_call(seed: int, size: int) -> None:
    text = RecallText(seed, ["al", "Pha", "beta"])
    for _ in range(5):
        above = ""
        for piece, learned_from in text.draw(size):
            assert "tool_call" not in piece
            if learned_from == SAID:
                for word in re.findall(r"\w+", piece):
                    assert word in above
            above += piece


def test_ambiguous_values_are_never_asked_for() -> None:
    text = RecallText(0, ["a"])  # so few words that values often coincide
    for _ in range(300):
        (shown, _), *rest = text.find()
        records = json.loads(shown)["items"]
        for (cue, _), (answer, _) in zip(rest[::2], rest[1::2], strict=True):
            value = json.loads(cue.partition(" {")[0])
            having = [record["id"] for record in records if value in record.values()]
            assert having == [answer.removesuffix('"}\n')]


def test_examples_have_one_length_and_a_third_is_trained() -> None:
    for length in (64, 256):
        text = RecallText(0, syllables(tokenizer()))
        drawn = [example(text, tokenizer(), length) for _ in range(50)]
        assert {len(one.tokens) for one in drawn} == {len(one.trained) for one in drawn} == {length}
        assert 0.2 < sum(sum(one.trained) for one in drawn) / (50 * length) < 0.5


def test_questions_are_trained_from_their_third_token_on() -> None:
    class One(RecallText):
        def draw(self, size: int = LARGEST) -> list[Piece]:
            return [("alpha beta\n", READ), ('"alpha" {"', CUE), ("beta", SAID), ("\n", SAID)]

    parts = [len(tokenizer().encode(piece, add_special_tokens=False)) for piece, _ in One(0, ["a"]).draw()]
    found = example(One(0, ["a"]), tokenizer(), sum(parts))
    read, cue, *answers = parts
    assert list(found.trained) == [0] * (read + 2) + [1] * (cue - 2 + sum(answers))


@given(st.integers(1, 2000))
def test_steps_have_shapes_and_rates_and_texts_get_longer(steps: int) -> None:
    schedule = Schedule(steps=steps)
    shapes = list(schedule.shapes())
    assert len(shapes) == steps
    assert [length for _, length in shapes] == sorted(length for _, length in shapes)
    assert set(shapes) <= {(stage.sequences, stage.length) for stage in STAGES}
    assert all(0 < schedule.rate(step) <= 1 for step in range(steps))


@pytest.mark.parametrize("given", [None, "active"])
def test_spinning_is_limited_unless_the_environment_is_set(
    given: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT"):
        monkeypatch.setenv(name, "active")  # restored after the test in any case
        if given is None or name == "GOMP_SPINCOUNT":
            monkeypatch.delenv(name)
    none = ["--data", str(tmp_path / "none.jsonl"), "--out", str(tmp_path / "out")]
    for command in (["tiny-base"], ["sft", "tiny-cpu", "--tokenizer", str(tmp_path)]):
        result = CliRunner().invoke(train, [*command, *none])
        assert "none.jsonl" in str(result.exception)
        assert os.environ.get("GOMP_SPINCOUNT") == (None if given else "1000")


def test_a_base_is_made_and_fine_tuned_by_the_recipe(tmp_path: Path) -> None:
    data = write_rows(tmp_path / "train.jsonl", rows(16))
    said = run(["tiny-base", "--data", data, "--out", tmp_path / "base", "--steps", "2", "--seed", "-1"])
    assert said.splitlines()[-1] == f"Done: {tmp_path / 'base'}" and "shards" not in said
    config = json.loads((tmp_path / "base" / "config.json").read_text())
    assert config["rope_parameters"]["rope_theta"] == 10_000.0
    sft = ["sft", "tiny-cpu", "--data", data, "--out", tmp_path / "run"]
    run([*sft, "--set", f"model.base={tmp_path / 'base'}", "--set", "training.epochs=4"])
    losses = [loss for _, loss, _ in curve(tmp_path / "run")]
    assert losses[-1] < losses[0]
    again = CliRunner().invoke(train, ["tiny-base", "--data", str(data), "--out", str(tmp_path / "base")])
    assert "is not empty" in str(again.exception)


def test_a_base_that_cannot_be_written_is_not_trained(tmp_path: Path) -> None:
    data = write_rows(tmp_path / "train.jsonl", rows(1))
    result = CliRunner().invoke(
        train, ["tiny-base", "--steps", "1", "--data", str(data), "--out", str(data / "base")]
    )
    assert isinstance(result.exception, WrongUseError)
    assert f"cannot make the folder {data / 'base'}" in str(result.exception)
    assert "step" not in result.output


def run(arguments: list[object]) -> str:
    """Run a command of `mcp-bench train`, and return what it said."""
    result = CliRunner().invoke(train, [str(word) for word in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stderr
