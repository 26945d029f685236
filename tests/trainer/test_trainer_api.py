"""Training from Python: the functions of `mcp_bench.trainer.api` do what the commands do."""

import inspect
import json
import re
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from mcp_bench.api import (
    BenchError,
    MissingDependencyError,
    UnknownNameError,
    WrongUseError,
    open_home,
    record,
)
from mcp_bench.bridge.cli.root import root
from mcp_bench.trainer.api import (
    ablate,
    loop,
    plan,
    recipes,
    resume_ablation,
    resume_loop,
    resume_sft,
    serve,
    train_sft,
)
from mcp_bench.trainer.cli.ablate import ablate as ablate_command
from mcp_bench.trainer.cli.loop import loop as loop_command
from mcp_bench.trainer.cli.serve_model import serve_model
from mcp_bench.trainer.cli.train import train
from tests.support.training.short_training import SMALL, rows, save_tokenizer, write_rows

pytestmark = pytest.mark.system

OF_COMMANDS = {"resume", "as_json", "shown", "write"}


@pytest.mark.parametrize(
    ("function", "command"),
    [
        (plan, train.commands["plan"]),
        (train_sft, train.commands["sft"]),
        (loop, loop_command),
        (ablate, ablate_command),
        (serve, serve_model),
    ],
    ids=["plan", "train_sft", "loop", "ablate", "serve"],
)
def test_every_option_is_a_parameter_with_its_default(function: object, command: click.Command) -> None:
    assert callable(function)
    parameters = inspect.signature(function).parameters
    for option in command.params:
        if option.name not in OF_COMMANDS:
            assert option.name in parameters, option.name
            default = parameters[option.name].default
            if isinstance(option, click.Option) and not option.multiple and not option.required:
                expected = option.to_info_dict()["default"]
                assert default is inspect.Parameter.empty or str(default) == str(expected), option.name
    assert set(parameters) - {option.name for option in command.params} <= {"report", "on_wait", "variables"}


def test_a_plan_is_that_of_the_command() -> None:
    words = ["train", "plan", "tiny-cpu", "--set", "data.max_length=512", "--json"]
    printed = json.loads(CliRunner().invoke(root, words).stdout)
    found = plan("tiny-cpu", overrides={"data.max_length": 512})
    assert (found.total, found.needed, found.refused) == (printed["total"], printed["needed"], [])
    assert {"tiny-cpu", "qwen3.5-9b-lora-1gpu"} <= {recipe.name for recipe in recipes()}
    with pytest.raises(UnknownNameError, match="did you mean tiny-cpu"):
        plan("tiny-gpu")


def test_a_path_can_override_a_recipe(tmp_path: Path) -> None:
    place = tmp_path / "a🙂"
    place.mkdir()
    with pytest.raises(WrongUseError, match=r"a🙂 has no config\.json"):
        plan("tiny-cpu", overrides={"model.base": place})


def test_what_cannot_be_resumed_is_refused(tmp_path: Path) -> None:
    wrong = {resume_sft: "no training run", resume_loop: "no loop", resume_ablation: "no ablation"}
    for again, words in wrong.items():
        with pytest.raises(WrongUseError, match=words):
            again(tmp_path)
    with pytest.raises(WrongUseError, match="no runs to select rows from"):
        ablate("tiny-cpu", 4)
    with pytest.raises(WrongUseError, match="turns is 0"):
        loop("tiny-cpu", turns=0)
    with pytest.raises(WrongUseError, match="belongs to dev, not to train"):
        loop("tiny-cpu", train=["simple-contact-details.1.dev.0"])


def test_a_missing_service_is_named_before_a_folder_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_bench.trainer.rl.trackers.find_spec", lambda name: None)
    data = write_rows(tmp_path / "train.jsonl", rows())
    tokenizer = str(save_tokenizer(tmp_path / "tokenizer"))
    given: dict[str, Any] = {"tokenizer": tokenizer, "overrides": SMALL, "out": tmp_path / "run"}
    with pytest.raises(MissingDependencyError, match="pip install wandb"):
        train_sft("tiny-cpu", data, **given, report_to=["wandb"])
    assert not (tmp_path / "run").exists()


def test_a_setting_of_serve_is_named_as_the_parameter_is(tmp_path: Path) -> None:
    """A caller in Python has no options with dashes."""
    (tmp_path / "a.gguf").write_bytes(b"GGUF")
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"model_name": "a b"}, "model_name"),
        ({"host": "192.0.2.1"}, "Port 0 picks a free one"),  # of documentation, so of no machine
        ({"vllm": "there", "engine": "torch"}, "vllm contradicts the engine torch"),
        (
            {"checkpoint": tmp_path / "a.gguf", "tool_call_parser": "x"},
            "tool_call_parser and reasoning_parser",
        ),
        (
            {"checkpoint": tmp_path / "a.gguf", "engine": "torch"},
            "is a GGUF file, which the engine llama.cpp",
        ),
        ({"engine": "llama.cpp"}, "the engine llama.cpp serves GGUF files"),
    ]
    for given, words in wrong:
        settings = {"checkpoint": tmp_path, **given}
        with pytest.raises(BenchError) as refused, serve(**settings):
            pass
        assert words in str(refused.value)
        assert not re.search(r" --\w+", str(refused.value).partition("`")[0])


@pytest.mark.full
def test_rows_become_a_model(tmp_path: Path) -> None:
    data = write_rows(tmp_path / "train.jsonl", rows())
    tokenizer = str(save_tokenizer(tmp_path / "tokenizer"))
    out = tmp_path / "run"
    trained = train_sft("tiny-cpu", data, eval_data=data, tokenizer=tokenizer, overrides=SMALL, out=out)
    assert [score["step"] for score in trained.evaluations] == [0, 3]
    assert (trained.folder, trained.model, trained.stopped) == (out, out / "model", False)
    assert (trained.step, trained.steps, len(trained.metrics)) == (3, 3, 3)
    assert resume_sft(out) == trained


@pytest.mark.full
def test_a_trained_model_is_served_and_recorded(tmp_path: Path) -> None:
    """It answers nonsense, and its episodes are graded all the same."""
    data = write_rows(tmp_path / "train.jsonl", rows())
    tokenizer = str(save_tokenizer(tmp_path / "tokenizer"))
    trained = train_sft("tiny-cpu", data, tokenizer=tokenizer, overrides=SMALL, out=tmp_path / "run")
    assert trained.model is not None
    with serve(trained.model, model_name="mine") as server:
        assert server.key not in repr(server)
        run = record(
            "chat", limit=1, model=server.model, base_url=server.base_url, env=server.env, max_calls=1,
            agent_options={"max_tokens": "8"}, timeout=120, progress=False, isolation="none",
        )  # fmt: skip
    assert [(one.model, one.invalid) for one in open_home().episodes()] == [("mine", None)]
    assert run.summary.done == 1
