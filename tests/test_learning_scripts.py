"""Scripts of `benchmarks/learning`: what they count, and what they refuse before hours of work."""

from __future__ import annotations

import importlib
import json
import math
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT
from tests.support.recorded import Episode, planned, record

pytestmark = pytest.mark.component


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that imports a script by its name."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks" / "learning"))
    return importlib.import_module


def test_the_best_gain_is_followed_through_the_quarters(script: Any) -> None:
    summed = script("improve_learning").summed
    attempts = [(-math.inf, 0.0), (0.3, 0.2), (0.3, 0.9), (0.1, 1.0)]
    found = summed(["a", "b", "b", "c"], [0.1, 0.3, 0.3, 0.1], attempts)
    assert found.curve == (0.1, 0.3, 0.3, 0.3)
    assert found.held_out == 0.2  # the first of those that were best while searching, not the best held out
    assert found.novel == (1.0, 1.0) and found.partial == (0.0, 1.0)
    assert summed(["a", "b"], [0.1, 0.5], attempts).curve == (0.1, 0.1, 0.5, 0.5)


def test_a_search_that_never_ran_has_no_gain(script: Any) -> None:
    found = script("improve_learning").summed(["a"], [], [(-math.inf, 0.0)])
    assert (found.runs, found.held_out, found.curve) == (0, 0.0, ())


def test_methods_without_live_attempts_come_after_one_with_them(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table = script("reward_table")
    monkeypatch.setattr(table, "take", lambda *_: pytest.fail("it trains before it refuses"))
    monkeypatch.setattr("sys.argv", ["reward_table.py", str(tmp_path / "out"), "--methods", "dpo", "grpo"])
    with pytest.raises(SystemExit):
        table.main()
    assert "begin with one, such as grpo" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_results_of_other_options_are_not_taken(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table, taken = script("reward_table"), list[Any]()
    monkeypatch.setattr(table, "take", lambda seed, methods, found: taken.append((seed.seed, methods)))

    def called(*more: str) -> None:
        monkeypatch.setattr("sys.argv", ["reward_table.py", str(tmp_path), *more])
        table.main()

    called("--seeds", "0", "--methods", "rft", "--dev", "2")
    called("--seeds", "1", "--methods", "rft", "grpo", "--dev", "2", "--jobs", "1")
    assert taken == [(0, ["rft"]), (1, ["rft", "grpo"])]
    for more, said in (
        (["--dev", "3"], "--dev: the results beside"),
        (["--dev", "2", "--set", "training.seed=2"], "--set: the results beside"),
    ):
        with pytest.raises(SystemExit):
            called(*more)
        assert said in capsys.readouterr().err


def test_a_run_of_a_private_split_is_in_the_table_of_worlds(script: Any) -> None:
    for splits in (["test", "train"], ["private"], ["train", "dev", "test"]):
        record([(planned(f"user_task_{n}", split), Episode()) for n, split in enumerate(splits)])
    names = {played.split for played in script("world_table").runs("agentdojo", "oracle")}
    assert names == {"train and test", "private", "all"}


def test_the_ablation_asks_for_a_demo_that_has_ended(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["ablate_model.py", "--demo", str(tmp_path)])
    with pytest.raises(SystemExit):
        script("ablate_model").main()
    assert "run `make demo-model` first: no loop in" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--engines", "llama.cpp"], "the others are compared with torch"),
        (["--engines", "torch", "vllm"], "name vLLM's environment"),
    ],
)
def test_engines_are_compared_with_ours(
    script: Any,
    words: list[str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    engines = script("three_engines")
    monkeypatch.setattr(engines, "play", lambda *_: pytest.fail("it serves a model before it refuses"))
    monkeypatch.setattr("sys.argv", ["three_engines.py", "model", *words])
    with pytest.raises(SystemExit):
        engines.main()
    assert said in capsys.readouterr().err


def test_a_call_that_was_cut_off_can_be_compared(script: Any) -> None:
    said = script("three_engines").said

    def answer(arguments: str) -> dict[str, Any]:
        call = {"function": {"name": "crm_contacts_get", "arguments": arguments}}
        return {"choices": [{"message": {"content": None, "tool_calls": [call]}}]}

    assert said(answer('{"id": 1}')) == said(answer('{ "id":1 }'))
    assert json.loads(said(answer('{"id": '))) == ["", [["crm_contacts_get", '{"id": ']]]
