"""Two processes, each with a part of the weights and of the rows, learn what one learns alone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner

from mcp_bench.servers.errors import WrongUseError
from mcp_bench.trainer.base_weights import load_weights
from mcp_bench.trainer.cli.train import train
from mcp_bench.trainer.recipe import load_recipe
from mcp_bench.trainer.rl.prepare import load_alone
from mcp_bench.trainer.rl.together import shares
from tests.support.bench_commands import Bench
from tests.support.training.tiny_checkpoints import make_tokenizer, qwen3, save, template
from tests.support.training.tiny_llama import tiny_llama_folder

ROOT = Path(__file__).parents[3]
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
TWO = ("--set", "hardware.devices=2", "--set", "hardware.sharding=fsdp2", "--set", "training.optimizer=adamw")


def trial(out: Path, *launcher: str) -> dict[str, Any]:
    environ = {**os.environ, "OMP_NUM_THREADS": "1"}
    argv = [*(launcher or (sys.executable,)), "-m", "tests.support.training.learner_trial", str(out)]
    done = subprocess.run(argv, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = torch.load(out, weights_only=False)
    return found


@pytest.mark.component
@pytest.mark.parametrize("checkpointing", ["on", "off"])
def test_a_policy_of_several_processes_is_that_of_the_engine(checkpointing: str, tmp_path: Path) -> None:
    """Activations are recomputed in training mode only, in which a base's own dropout works."""
    folder = tiny_llama_folder(tmp_path / "base", attention_dropout=0.5)
    _, recipe = load_recipe("tiny-cpu-grpo", [f"training.checkpointing={checkpointing}"])
    policy, engine = load_alone(str(folder), recipe), load_weights(str(folder), dtype=torch.float32).eval()
    assert policy.training == (checkpointing == "on")
    tokens = torch.arange(40)[None]
    assert torch.equal(policy(tokens).logits, engine(tokens).logits)


@pytest.mark.component
def test_two_processes_learn_what_one_learns(tmp_path: Path) -> None:
    alone, together = trial(tmp_path / "alone"), trial(tmp_path / "together", *TORCHRUN)
    assert "norm of its gradient nan" in alone["error"], "the whole step is refused"
    assert together["error"] == alone["error"]
    assert max([*alone["restored"].values(), *together["restored"].values()]) == 0
    assert alone["figures"][0]["loss"] != alone["figures"][-1]["loss"]
    for name in ("gap", "last"):
        assert together[name] == pytest.approx(alone[name], rel=1e-3, abs=1e-5)
    for one, other in zip(together["figures"], alone["figures"], strict=True):
        assert one == pytest.approx(other, rel=1e-3, abs=1e-5)
    for name in ("weights", "teacher"):
        assert together[name].keys() == alone[name].keys()
        for key, weight in alone[name].items():
            torch.testing.assert_close(together[name][key], weight, rtol=1e-3, atol=1e-4)


@pytest.mark.component
def test_an_error_within_an_update_ends_all_processes(tmp_path: Path) -> None:
    """The other process waits in the update: nothing that the first one could send would reach it."""
    argv = [*TORCHRUN, "-m", "tests.support.training.learner_trial", str(tmp_path / "out"), "fail"]
    environ = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(argv, cwd=ROOT, env=environ, stderr=subprocess.PIPE, text=True) as launcher:
        try:
            _, said = launcher.communicate(timeout=240)
        finally:
            launcher.terminate()  # it ends its processes, too
    assert launcher.returncode == 1 and "OutOfMemoryError: pretended" in said


@pytest.mark.unit
@pytest.mark.parametrize(("batches", "rank", "mine"), [
    (5, 0, [(0, True), (2, True), (4, True)]),
    (5, 1, [(1, True), (3, True), (4, False)]),
    (1, 1, [(0, False)]),
])  # fmt: skip
def test_all_processes_take_as_many_steps(
    batches: int, rank: int, mine: list[tuple[int, bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", str(rank))
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert list(shares(list(range(batches)))) == mine


@pytest.mark.component
def test_a_recipe_for_several_processes_names_the_command_that_starts_them(tmp_path: Path) -> None:
    asked = ["rl", "tiny-cpu-grpo", "--start", str(tmp_path), *TWO]
    refused = CliRunner().invoke(train, asked)
    assert isinstance(refused.exception, WrongUseError)
    line = "torchrun --standalone --nproc-per-node=2 --shutdown-timeout=1800 -m -- mcp_bench.bridge.cli.root"
    assert line in str(refused.exception)


@pytest.mark.system
@pytest.mark.parametrize(
    "resumed",
    [
        False,
        pytest.param(True, marks=pytest.mark.full),
    ],  # a run of one process that is resumed: test_rl_measuring.py
)
def test_two_processes_roll_out(bench_home: Path, tmp_path: Path, resumed: bool) -> None:
    tokenizer = make_tokenizer(template("qwen3"))
    start = save(qwen3(len(tokenizer)), tokenizer, tmp_path / "start")
    bench, out = Bench(bench_home), tmp_path / "learned"
    small = [word for one in ("rl.groups=1", "rl.attempts=2", "rl.refills=0", "rl.max_tokens=4", "rl.guards.cut=1.0")
             for word in ("--set", one)]  # fmt: skip
    asked = [
        "train",
        "rl",
        "tiny-cpu-grpo",
        "--start",
        str(start),
        "--tasks",
        "1",
        "--steps",
        "1",
        *TWO,
        *small,
    ]
    argv = [*TORCHRUN, "-m", "--", "mcp_bench.bridge.cli.root", *asked, "--out", str(out), "--json"]
    environ = {**bench.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(argv, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"run": str(out), "model": str(out / "model"), "steps": 1}
    assert done.stderr.count("Run: ") == 1
    [line] = [json.loads(text) for text in (out / "metrics.jsonl").read_text().splitlines()]
    assert line["episodes"] == 2
    if not resumed:
        return
    shutil.rmtree(out / "model")  # as if it had been killed before it was saved
    again = [*TORCHRUN, "-m", "--", "mcp_bench.bridge.cli.root", "train", "rl", "--resume", str(out)]
    done = subprocess.run(again, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert (out / "model" / "model.safetensors").is_file()
    assert len((out / "metrics.jsonl").read_text().splitlines()) == 1, "the step was not made again"
