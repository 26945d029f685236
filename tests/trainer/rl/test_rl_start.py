"""What a run that learns from reward can be asked for: agents, and options of `record`."""

from __future__ import annotations

import os
from pathlib import Path
from unittest import mock

import pytest
from click.testing import CliRunner, Result

from mcp_bench.servers.errors import BenchError, WrongUseError
from mcp_bench.servers.registry import registered
from mcp_bench.trainer.cli.train import train
from mcp_bench.trainer.recipe import load_recipe, recipe_text
from mcp_bench.trainer.rl.collect import isolation, variables
from mcp_bench.trainer.rl.folder import RLFolder, RunSettings
from mcp_bench.trainer.rl.guards import CollapsedError
from mcp_bench.trainer.rl.start import check_learning
from mcp_bench.trainer.trial.commands import StepFailedError
from tests.support.bench_commands import FIXTURES, Bench
from tests.support.training.tiny_checkpoints import make_tokenizer, qwen3, save, template

pytestmark = pytest.mark.component

ROOT = "http://127.0.0.1:1/secret"


@pytest.mark.parametrize("agent", ["chat", "one-action", "search"])
def test_agents_over_chat_completions(agent: str) -> None:
    assert variables(agent, ROOT)["OPENAI_BASE_URL"] == f"{ROOT}/v1"


def test_no_provider_of_our_client_leads_away_from_the_policy() -> None:
    found = variables("chat", ROOT)
    assert found["ANTHROPIC_BASE_URL"] == ROOT
    assert {found["OPENAI_API_KEY"], found["ANTHROPIC_API_KEY"]} == {"none"}


@pytest.mark.parametrize(
    ("agent", "options", "environ", "added"),
    [
        ("chat", (), {}, ["--isolation", "in-process"]),
        ("one-action", ("--agent-option", "max_steps=4"), {}, ["--isolation", "in-process"]),
        ("search", (), {}, []),
        ("chat", ("--isolation=auto",), {}, []),
        ("chat", ("--tools", "all"), {}, []),
        ("chat", (), {"MCP_BENCH_ISOLATION": "uid"}, []),
    ],
)
def test_our_client_is_a_part_of_the_recorder_unless_the_user_chose(
    agent: str, options: tuple[str, ...], environ: dict[str, str], added: list[str]
) -> None:
    assert isolation(agent, options, environ) == added


@pytest.mark.parametrize("agent", ["oracle", "noop"])
def test_agents_without_a_model(agent: str) -> None:
    with pytest.raises(WrongUseError, match=f"agent '{agent}' cannot roll out a policy"):
        variables(agent, ROOT)


def test_options_that_a_run_chooses_itself(tmp_path: Path) -> None:
    tokenizer = make_tokenizer(template("qwen3"))
    start = save(qwen3(len(tokenizer)), tokenizer, tmp_path / "start")
    asked = ["rl", "tiny-cpu-grpo", "--start", start, "--tasks", 1, "--out", tmp_path / "run"]
    with pytest.raises(WrongUseError, match="--seed=3 after -- is chosen by train rl itself"):
        _train(*asked, "--", "--seed=3")
    with pytest.raises(WrongUseError, match="--judge-model after -- needs --judge-base-url URL"):
        _train(*asked, "--", "--judge-model", "m")
    assert not (tmp_path / "run").exists()


def test_options_of_record_are_checked_first(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    tokenizer = make_tokenizer(template("qwen3"))
    start = save(qwen3(len(tokenizer)), tokenizer, tmp_path / "start")
    asked = ["rl", "tiny-cpu-grpo", "--start", start, "--tasks", 1, "--out", tmp_path / "run"]
    with pytest.raises(StepFailedError):
        _train(*asked, "--", "--agent-option", "max_step=3")
    assert "no option 'max_step'" in capfd.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_teacher_is_compared_on_all_tokens(tmp_path: Path) -> None:
    tokenizer = make_tokenizer(template("qwen3"))
    start = save(qwen3(len(tokenizer)), tokenizer, tmp_path / "start")
    asked = ["rl", "tiny-cpu-grpo", "--start", start, "--tasks", 1, "--out", tmp_path / "run"]
    with pytest.raises(
        WrongUseError, match=r"rl\.min_p=0\.1: sdpo compares policy and teacher on all tokens"
    ):
        _train(*asked, "--algorithm", "sdpo", "--set", "rl.min_p=0.1")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("algorithm", "setting", "default"),
    [
        ("rft", "rl.below=0", 1),
        ("rft", "rl.imitate=0.3", 0),
        ("sdpo", "rl.clip_above=0.5", 0.28),
        ("opd", "rl.clip_below=0.1", 0.2),
        ("cispo", "rl.clip_below=0.1", 0.2),
    ],
)
def test_settings_without_an_effect(tmp_path: Path, algorithm: str, setting: str, default: float) -> None:
    asked = ["rl", "tiny-cpu-grpo", "--start", tmp_path, "--algorithm", algorithm, "--set", setting]
    name = setting.partition("=")[0]
    with pytest.raises(
        WrongUseError, match=f"{setting} has no effect with {algorithm}: use {name}={default}"
    ):
        _train(*asked)


@pytest.mark.parametrize(
    ("algorithm", "setting", "said"),
    [
        ("grpo", "rl.distillation.top=5", r"rl\.distillation has no effect with grpo"),
        ("opd", "rl.distillation.teacher=frozen", r"rl\.distillation\.follow have no effect with opd"),
        ("opd", "rl.distillation.follow=0.5", r"rl\.distillation\.follow have no effect with opd"),
        ("grpo", "training.precision=bf16", "use bf16-mixed, or fp32"),
        ("grpo", "hardware.memory_gib=0.005", r"stores all weights .*: about 0\.0 GiB per device"),
    ],
)
def test_settings_that_cannot_help(tmp_path: Path, algorithm: str, setting: str, said: str) -> None:
    with pytest.raises(WrongUseError, match=said):
        _train("rl", "tiny-cpu-grpo", "--start", tmp_path, "--algorithm", algorithm, "--set", setting)


def test_a_recipe_for_a_gpu_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named before there is a folder, whose recipe stays as it is, and by `loop` and `improve`, too."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    tokenizer = make_tokenizer(template("qwen3"))
    start = save(qwen3(len(tokenizer)), tokenizer, tmp_path / "start")
    setting, said = "hardware.device=cuda", "hardware.device is cuda, but torch finds no GPU"
    recipe = load_recipe("tiny-cpu-grpo", [setting])[1]
    asked = ["--start", start, "--tasks", 1, "--out", tmp_path / "run", "--set", setting]
    with pytest.raises(WrongUseError, match=said):
        _train("rl", "tiny-cpu-grpo", *asked)
    assert not (tmp_path / "run").exists()
    with pytest.raises(WrongUseError, match=said):
        check_learning(recipe, "grpo", ())
    settings = RunSettings(start=str(start), algorithm="grpo", benchmark="saasworld", tasks=("t",), steps=3)
    RLFolder(tmp_path).make(settings, recipe_text(recipe))
    with pytest.raises(WrongUseError, match=said):
        _train("rl", "--resume", tmp_path)


def test_settings_with_an_effect(tmp_path: Path) -> None:
    """The next check refuses the folder, which has no model."""
    settings = [
        word for one in ("below=0", "clip_below=0.1", "clip_above=0.5") for word in ("--set", f"rl.{one}")
    ]
    with pytest.raises(WrongUseError, match=str(tmp_path)):
        _train("rl", "tiny-cpu-grpo", "--start", tmp_path, *settings)


@pytest.mark.parametrize("option", ["--tasks", "--canaries", "--dev"])
def test_options_that_select_no_task_are_named(tmp_path: Path, option: str) -> None:
    tokenizer = make_tokenizer(template("qwen3"))
    start = save(qwen3(len(tokenizer)), tokenizer, tmp_path / "start")
    with pytest.raises(WrongUseError, match=f"{option} 0 selects no task"):
        _train("rl", "tiny-cpu-grpo", "--start", start, option, 0)


@pytest.mark.parametrize("option", ["--tasks", "--canaries"])
def test_tasks_that_may_not_be_trained_on_are_refused_before_they_are_recorded(
    bench_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    tokenizer = make_tokenizer(template("qwen3"))
    start = save(qwen3(len(tokenizer)), tokenizer, tmp_path / "start")
    free, all_of_them = tmp_path / "free.txt", tmp_path / "all.txt"
    free.write_text("unsolved\n")
    all_of_them.write_text("unsolved\ngame\n")
    chosen = {"--tasks": free, "--canaries": free, option: all_of_them}
    asked = ["--start", start, "--benchmark", "counter", "--steps", 1, "--out", tmp_path / "run"]
    small = [word for one in ("attempts=2", "max_tokens=4") for word in ("--set", f"rl.{one}")]
    with monkeypatch.context() as patched, mock.patch.dict(os.environ, Bench(bench_home).environment()):
        patched.syspath_prepend(str(FIXTURES))
        registered.cache_clear()
        with pytest.raises(WrongUseError, match="the task game may not be trained on: counter forbids it"):
            _train("rl", "tiny-cpu-grpo", *asked, *(word for pair in chosen.items() for word in pair), *small)
    registered.cache_clear()
    assert not (tmp_path / "run").exists()


def test_a_wrong_option_is_named_before_tasks_are_built(tmp_path: Path) -> None:
    """No task can be built of a benchmark that is not there."""
    tokenizer = make_tokenizer(template("qwen3"))
    start = save(qwen3(len(tokenizer)), tokenizer, tmp_path / "start")
    asked = ["rl", "tiny-cpu-grpo", "--start", start, "--benchmark", "saaswold"]
    for options, reason in (
        (["--follow", start], "--follow names the model that --algorithm opd follows"),
        (["--dev", "none.txt"], "--dev none.txt: neither a number of tasks nor a readable file"),
        (["--out", start], "is not empty"),
        (["--seed", 2**63], "seed is 9223372036854775808: it should be a number of 64 bits"),
    ):
        with pytest.raises(WrongUseError, match=reason):
            _train(*asked, *options)


@pytest.mark.parametrize(
    "more", [["--steps", "9"], ["--set", "rl.groups=1"], ["--", "--agent-option", "max_steps=3"]]
)
def test_a_resumed_run_keeps_its_options(tmp_path: Path, more: list[str]) -> None:
    refused = _train("rl", "--resume", tmp_path, *more)
    assert refused.exit_code == 2
    assert "--resume keeps the run's own settings: leave out" in refused.output


@pytest.mark.parametrize(
    ("error", "advised"),
    [(CollapsedError("step 1: the entropy is low"), False), (BenchError("killed"), True)],
)
def test_only_a_run_that_can_go_on_names_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BenchError, advised: bool
) -> None:
    folder = RLFolder(tmp_path)
    settings = RunSettings(start="model", algorithm="grpo", benchmark="saasworld", tasks=("t",), steps=3)
    folder.make(settings, recipe_text(load_recipe("tiny-cpu-grpo")[1]))

    def ends(*_: object) -> None:
        raise error

    monkeypatch.setattr("mcp_bench.trainer.rl.run.learn", ends)
    ended = CliRunner().invoke(train, ["rl", "--resume", str(tmp_path)])
    assert ended.exception is error
    assert (f"Resume with: mcp-bench train rl --resume {tmp_path}" in ended.output) == advised


def _train(*words: object) -> Result:
    return CliRunner().invoke(train, [str(word) for word in words], catch_exceptions=False)
