"""The loop: a shortened run from end to end, and its decisions."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file

from mcp_bench.servers.errors import BenchError, WrongUseError
from mcp_bench.trainer.cli.loop import loop
from mcp_bench.trainer.loop.folder import LoopFolder
from mcp_bench.trainer.loop.gate import verdict
from mcp_bench.trainer.loop.report import sections
from mcp_bench.trainer.loop.settings import LoopSettings
from mcp_bench.trainer.loop.turns import run_loop
from mcp_bench.trainer.recipe import load_recipe
from mcp_bench.trainer.trial.commands import StepFailedError
from mcp_bench.trainer.trial.recipe import trial_recipe
from mcp_bench.trainer.trial.scores import scores_by_group
from tests.support.bench_commands import Bench
from tests.support.processes.interrupted import interrupted

pytestmark = pytest.mark.system

TRAIN = ("simple-contact-details.1.train.0", "simple-mail-filing.1.train.1")
DEV = ("simple-contact-details.1.dev.0", "simple-mail-filing.1.dev.1")
TEST = ("simple-form-opening.1.test.0",)


def scores(episodes: int = 10, invalid: int = 0) -> dict[str, Any]:
    return {"episodes": episodes, "invalid": invalid}


def changed(fixed: int, broken: int, difference: float | None) -> dict[str, Any]:
    return {
        "fail_to_pass": ["t"] * fixed,
        "pass_to_fail": ["t"] * broken,
        "partial": {"difference": difference},
    }


@given(st.integers(0, 9), st.integers(0, 9), st.floats(-1, 1))
def test_promotion_needs_more_fixes_and_a_higher_score(fixed: int, broken: int, difference: float) -> None:
    promoted, why = verdict(scores(), scores(), changed(fixed, broken, difference))
    assert promoted == (fixed >= broken and difference > 0)
    assert f"{fixed} tasks fixed, {broken} broken" in why


def test_too_many_invalid_episodes_prevent_promotion() -> None:
    better = changed(9, 0, 0.9)
    assert verdict(scores(), scores(10, 1), better)[0]
    assert verdict(scores(10, 2), scores(), better) == (
        False,
        "2 of 10 episodes of the previous model are invalid",
    )
    assert verdict(scores(), scores(10, 2), better)[1].endswith("of this model are invalid")
    assert verdict(scores(), scores(), changed(0, 0, None)) == (False, "no task was graded with both models")


def test_steps_run_once_and_failed_steps_run_again(tmp_path: Path) -> None:
    folder, done = LoopFolder(tmp_path), []

    def work() -> dict[str, Any]:
        done.append(1)
        if len(done) == 1:
            raise BenchError("no")
        return {"x": len(done)}

    with pytest.raises(BenchError):
        folder.step(1, "a", work)
    assert [folder.step(1, "a", work) for _ in range(3)] == [{"x": 2}] * 3


def test_wrong_use_is_reported_before_anything_starts(tmp_path: Path) -> None:
    ids = tmp_path / "ids"
    ids.write_text("\n".join(DEV))
    out = tmp_path / "loop"
    wrong: list[tuple[list[str], str]] = [
        ([], "use --recipe"),
        (["--recipe", "tiny"], "unknown recipe 'tiny'"),
        (["--recipe", "tiny-cpu", "--train", "none.txt"], "neither a number of tasks nor a readable file"),
        (["--recipe", "tiny-cpu", "--train", str(ids)], "belongs to dev, not to train"),
        (["--recipe", "tiny-cpu", "--benchmark", "saaswold"], "unknown benchmark 'saaswold' (did you mean"),
        (["--recipe", "tiny-cpu", "--dev", "0"], "--dev 0 selects no task"),
        (["--recipe", "qwen3-8b-8xh100-cp", "--set", "hardware.devices=16"], "need 2 machines"),
        (["--recipe", "tiny-cpu", "--teacher-option", "slps=0.2"], "no option 'slps' (did you mean slips?)"),
        (["--recipe", "tiny-cpu", "--teacher-option", "slips"], "'slips' is not of the form KEY=VALUE"),
        (["--recipe", "tiny-cpu", "--teacher", "oracel"], "oracel"),
        (["--recipe", "tiny-cpu", "--", "--repeat=3"], "--repeat=3 after -- is chosen by loop itself"),
        (["--recipe", "tiny-cpu", "--seed", str(2**63)], "should be a number of 64 bits"),
        (["--recipe", "tiny-cpu", "--algorithm", "dpo", "--attempts", "1"], "use --attempts 2 or more"),
        (
            ["--recipe", "tiny-cpu", "--algorithm", "grpo", "--turns", "2", "--set", "lora.rank=4"],
            "without lora",
        ),
        (
            ["--recipe", "tiny-cpu", "--algorithm", "grpo", "--turns", "2", "--set", "rl.ahead=1"],
            "rl.ahead=1 samples while weights change",
        ),
        (["--recipe", "smollm2-135m-cpu"], "Fetch it with: mcp-bench train base smollm2-135m"),
        (
            ["--recipe", "tiny-cpu", "--algorithm", "grpo", "--turns", "2", "--", "--user-model", "m"],
            "--user-model after -- needs --user-base-url URL",
        ),
        *(
            (["--recipe", "tiny-cpu", "--algorithm", method, "--turns", "2", "--set", setting], reason)
            for method, setting, reason in (
                ("dpo", "lora.rank=4", "without lora"),
                ("dpo", "data.shared_prefix=true", "data.shared_prefix is for rows, not for pairs"),
                ("dpo", "training.precision=bf16", "rounding loses updates as small as those from pairs"),
                ("kto", "preference.loss=ipo", "preference.loss has no effect with kto"),
            )
        ),
        (
            ["--recipe", "tiny-cpu", "--algorithm", "rft", "--turns", "2", "--set", "rl.below=0"],
            "rl.below=0 has no effect with rft",
        ),
        (["--resume", str(out)], "no loop in"),
    ]
    for arguments, reason in wrong:
        few = ["--out", str(out), "--train", "1", "--dev", "1", "--test", "0"]
        result = CliRunner().invoke(loop, [*([] if "--resume" in arguments else few), *arguments])
        assert isinstance(result.exception, WrongUseError)
        assert reason in str(result.exception)
        assert not out.exists()


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--timout=300", "No such option '--timout'"),
        ("--agent-option=drop=0.5", "no option 'drop'"),  # the teacher has it, the models' client has not
    ],
)
def test_options_of_record_are_checked_first(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], option: str, said: str
) -> None:
    out = tmp_path / "loop"
    few = ["--recipe", "tiny-cpu", "--train", "1", "--dev", "1", "--test", "0", "--out", str(out)]
    result = CliRunner().invoke(loop, [*few, "--", option])
    assert isinstance(result.exception, StepFailedError)
    assert said in capfd.readouterr().err
    assert not out.exists()


def test_a_wrong_option_is_named_before_tasks_are_built(tmp_path: Path) -> None:
    """No task can be built of a benchmark that is not there."""
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "mine").touch()
    for arguments, reason in (
        (["--teacher", "oracel"], "oracel"),
        (["--out", str(tmp_path / "used")], "is not empty"),
        (["--test", "none.txt"], "--test none.txt: neither a number of tasks nor a readable file"),
        (["--set", "training.precision=fp8"], "training.precision"),
    ):
        words = ["--recipe", "tiny-cpu", "--benchmark", "saaswold", "--train", "900", *arguments]
        result = CliRunner().invoke(loop, words)
        assert isinstance(result.exception, WrongUseError)
        assert reason in str(result.exception)


@pytest.mark.parametrize("more", [["--turns", "5"], ["--recipe", "tiny-cpu"], ["--", "--timeout", "300"]])
def test_a_resumed_loop_keeps_its_settings(more: list[str], tmp_path: Path) -> None:
    refused = CliRunner().invoke(loop, ["--resume", str(tmp_path), *more])
    assert refused.exit_code == 2
    assert "--resume keeps the loop's own settings: leave out" in refused.output


def test_an_unavailable_base_is_reported_before_recording(tmp_path: Path) -> None:
    asked = ["--recipe", "tiny-cpu", "--set", "model.base=no/such/folder", "--out", str(tmp_path / "loop")]
    result = CliRunner().invoke(loop, asked)
    assert isinstance(result.exception, BenchError)
    assert "model.base no/such/folder is not a folder and cannot be downloaded" in str(result.exception)
    assert not (tmp_path / "loop").exists()


def test_a_gguf_file_has_to_be_converted(tmp_path: Path) -> None:
    file = tmp_path / "base.gguf"
    file.write_bytes(b"GGUF")
    with pytest.raises(WrongUseError, match=f"mcp-bench train base {file} --name NAME"):
        trial_recipe("tiny-cpu", [f"model.base={file}"])


def test_a_hub_base_becomes_a_folder_in_the_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path / "models--lab--tiny"  # the layout of a download
    (cache / "refs").mkdir(parents=True)
    (cache / "refs" / "main").write_text("abc")
    (cache / "snapshots" / "abc").mkdir(parents=True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    (cache / "snapshots" / "abc" / "model.safetensors").touch()
    stored = yaml.safe_load(trial_recipe("tiny-cpu", ["model.base=lab/tiny"], serves_base=False))
    assert stored["model"]["base"] == str(cache / "snapshots" / "abc")


def test_a_stored_recipe_has_absolute_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("base").mkdir()
    sizes = load_recipe("tiny-cpu")[1].architecture
    content = {"model_type": sizes.model_type, **sizes.configuration()}
    Path("base/config.json").write_text(json.dumps(content), encoding="utf-8")
    Path("base/model.safetensors").touch()
    Path("mine.jinja").touch()
    over = ["model.base=base", "model.chat_template=mine.jinja", "model.tokenizer=hub/name"]
    stored = yaml.safe_load(trial_recipe("tiny-cpu", over, serves_base=False))["model"]
    assert (stored["base"], stored["tokenizer"]) == (str(tmp_path / "base"), "hub/name")
    assert stored["chat_template"] == str(tmp_path / "mine.jinja")


def test_a_turn_with_nothing_to_learn_from_ends(bench_home: Path) -> None:
    """Its attempts are as stored: the oracle's, which are equally good."""
    Bench(bench_home).run("record", "--agent", "oracle", "--task", TRAIN[0], "--repeat", "2")
    [run] = [path.name for path in (bench_home / "runs").glob("run_*")]
    folder = LoopFolder(bench_home / "loop")
    folder.path.mkdir()
    folder.recipe.write_text(trial_recipe("tiny-cpu", []), encoding="utf-8")
    settings = LoopSettings(
        recipe="tiny-cpu", benchmark="saasworld", turns=2, train=[TRAIN[0]], dev=[DEV[0]], test=[],
        teacher="oracle", algorithm="dpo",
    )  # fmt: skip
    folder.make(settings)
    # all that were graded are solved, and others are invalid: so there are tasks left
    measured = {"model": "base", "dev": {**scores_by_group(run, TRAIN), "strict_invalid_as_0": 0.5}}
    done = {
        0: {"base": {"model": "base"}, "measure": measured},
        1: {
            "teach": {"run": run}, "curate": {"data": "train.jsonl", "rows": 1}, "train": {"model": "base"},
            "measure": measured, "flips": {},
            "gate": {"promoted": True, "why": "better", "against": "base"},
        },
        2: {"attempt": {"run": run, "model": "base", "scores": measured["dev"]}},
    }  # fmt: skip
    for turn, steps in done.items():
        for name, outcome in steps.items():
            folder.step(turn, name, lambda outcome=outcome: outcome)
    lines: list[str] = []
    history = run_loop(folder, settings, lines.append)
    last = history["turns"][-1]
    assert (last["measure"], last["gate"]["promoted"]) == (None, False)
    assert last["gate"]["why"].startswith(
        "nothing to learn from: no two attempts at a task differ by 0.3 or more"
    )
    assert history["best"] == measured
    assert lines[-1] == f"turn 2: no model: not promoted ({last['gate']['why']})"
    assert run_loop(folder, settings, print) == history
    [summary, *_] = sections(folder.path)
    assert any(f"no: {last['gate']['why']}" in row for row in summary.tables[0].rows)


@pytest.mark.full
@pytest.mark.parametrize("algorithm", ["dpo", "kto"])
def test_a_turn_from_pairs(bench_home: Path, algorithm: str) -> None:
    """Its attempts are as stored, some better than others: those of an oracle that leaves calls out."""
    bench = Bench(bench_home)
    tasks = [word for task in TRAIN for word in ("--task", task)]  # KTO needs two pairs
    bench.run("record", "--agent", "oracle", *tasks)
    [taught] = [path.name for path in (bench_home / "runs").glob("run_*")]
    worse = ("--agent-option", "drop=0.5", "--repeat", "8", "--seed", "1")
    bench.run("record", "--agent", "oracle", *tasks, *worse)
    [attempts] = [path.name for path in (bench_home / "runs").glob("run_*") if path.name != taught]
    rows, base = bench_home / "rows.jsonl", bench_home / "base"
    bench.run("export", "--run", taught, "--out", str(rows))
    bench.run("train", "tiny-base", "--data", str(rows), "--out", str(base), "--steps", "3")

    folder = LoopFolder(bench_home / "loop")
    folder.path.mkdir()
    over = ["training.epochs=4", "preference.learning_rate=1e-3"]
    folder.recipe.write_text(trial_recipe("tiny-cpu", over), encoding="utf-8")
    settings = LoopSettings(
        recipe="tiny-cpu", benchmark="saasworld", turns=2, train=TRAIN, dev=[DEV[0]], test=[],
        teacher="oracle", algorithm=algorithm, min_partial=0.1, max_tokens=20,
    )  # fmt: skip
    folder.make(settings)
    measured = {"model": str(base), "dev": {**scores_by_group(taught, TRAIN), "strict": 0.5}}
    done = {
        0: {"base": {"model": str(base)}, "measure": measured},
        1: {
            "teach": {"run": taught}, "curate": {"data": str(rows), "rows": 1}, "train": {"model": str(base)},
            "measure": measured, "flips": {},
            "gate": {"promoted": True, "why": "better", "against": "base"},
        },
        2: {"attempt": {"run": attempts, "model": str(base), "scores": measured["dev"]}},
    }  # fmt: skip
    for turn, steps in done.items():
        for name, outcome in steps.items():
            folder.step(turn, name, lambda outcome=outcome: outcome)
    last = run_loop(folder, settings, print)["turns"][-1]
    trained = last["train"]
    assert last["curate"]["rows"] >= 2, last["curate"]
    assert trained["steps"] >= 4 and trained["base"] == str(base)
    assert trained["last_loss"] < trained["first_loss"]
    before, after = (load_file(Path(model) / "model.safetensors") for model in (base, trained["model"]))
    assert any(not torch.equal(before[name], after[name]) for name in before), "the same weights"
    assert (last["measure"]["dev"]["episodes"], last["measure"]["dev"]["invalid"]) == (1, 0)


@pytest.mark.full  # the demo's test covers one turn
@pytest.mark.parametrize("algorithm", ["sft", "rft", "grpo"])
def test_a_loop_of_two_turns_stopped_and_resumed(tmp_path: Path, algorithm: str) -> None:
    """Base, teacher and two turns with the model's own attempts, on real servers, without thresholds."""
    turns = 2
    files = {}
    for split, ids in (("train", TRAIN), ("dev", DEV), ("test", TEST)):
        files[split] = tmp_path / f"{split}.txt"
        files[split].write_text("\n".join(ids))
    out = tmp_path / "loop"
    asked = [f"--{split}={path}" for split, path in files.items()]
    small = ["--set", "training.epochs=1", "--base-steps", "3", "--attempts", "1", "--min-partial", "0"]
    small += ["--max-tokens", "16", "--set", "rl.guards.cut=1"]  # few tokens end most attempts
    small += ["--algorithm", algorithm, "--rl-steps", "1"]
    begun = command("--recipe", "tiny-cpu", "--turns", str(turns), *asked, *small, "--out", str(out))
    assert f"--resume {out}" in interrupted(begun, "$ mcp-bench train sft")
    assert {path.stem for path in (out / "turn-1").glob("*.json")} == {
        "teach",
        "curate",
        "train.jsonl.manifest",
    }
    teach = (out / "turn-1" / "teach.json").read_text()

    interrupted(command("--resume", str(out)), "(1 tasks)")  # while it records the only task of test
    dev = (out / "turn-1" / "measure-dev.json").read_text()
    assert not (out / "turn-1" / "measure-test.json").exists()

    done = subprocess.run(command("--resume", str(out), "--json"), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (out / "turn-1" / "teach.json").read_text() == teach
    assert (out / "turn-1" / "measure-dev.json").read_text() == dev
    history = json.loads(done.stdout)
    assert [turn["turn"] for turn in history["turns"]] == [1, 2][:turns]
    for measured in (history["base"], *(turn["measure"] for turn in history["turns"])):
        assert (measured["dev"]["episodes"], measured["dev"]["invalid"]) == (2, 0)
        assert list(measured["test"]["families"]) == ["simple-form-opening.1"]
    last = history["turns"][-1]
    if algorithm == "sft":
        assert len(last["curate"]["runs"]) == turns
    else:
        assert last["train"]["steps"] == 1
    assert last["flips"]["dev"]["common_tasks"] == 2
    assert Path(last["train"]["model"], "model.safetensors").is_file()


@pytest.mark.full
def test_a_loop_on_two_devices(tmp_path: Path) -> None:
    """Imitation and learning from reward, each as two processes on this machine's CPU."""
    files = {"train": tmp_path / "train.txt", "dev": tmp_path / "dev.txt"}
    for split, ids in (("train", TRAIN), ("dev", DEV[:1])):
        files[split].write_text("\n".join(ids))
    two = ("hardware.devices=2", "training.optimizer=adamw", "training.epochs=1")
    over = [*two, "rl.guards.cut=1", "rl.groups=2", "rl.attempts=2"]
    done = subprocess.run(
        command(
            *("--recipe", "tiny-cpu", "--turns", "2", "--base-steps", "3", "--attempts", "1"),
            *(f"--{split}={path}" for split, path in files.items()),
            *(word for setting in over for word in ("--set", setting)),
            *("--min-partial", "0", "--max-tokens", "16", "--algorithm", "grpo", "--rl-steps", "1"),
            *("--out", str(tmp_path / "loop"), "--json"),
        ),
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    first, second = json.loads(done.stdout)["turns"]
    assert first["train"]["rows"] + first["train"]["too_long"] == len(TRAIN)
    assert (first["train"]["steps"], second["train"]["steps"], second["train"]["episodes"]) == (1, 1, 4)
    for turn in (first, second):
        assert turn["measure"]["dev"]["invalid"] == 0
        assert Path(turn["train"]["model"], "model.safetensors").is_file()
        trained_by = Path(turn["train"]["model"]).parent / "recipe.yaml"
        assert "devices: 2" in trained_by.read_text()  # a training refuses another number of processes


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "mcp_bench.bridge.cli.root", "loop", *arguments]
