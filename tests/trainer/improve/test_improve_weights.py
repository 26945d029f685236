"""Weights are trained, served and measured like a harness. The model is a tiny one that solves nothing."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path

import pytest
import yaml

from mcp_bench.recorder.runs.reader import RunReader
from tests.support.bench_commands import Bench
from tests.support.improvement.scripted import GOOD, dev_ids
from tests.support.training.tiny_checkpoints import make_tokenizer, qwen3, save, template

pytestmark = [
    pytest.mark.system,
    pytest.mark.full,  # trains and serves, a minute; the loop's and the demo's tests take the same steps
]

SHORT = "Answer in a few words."
NO_GUARDS = {"cut": 1.0, "flat": 1.0, "calls": 0.0, "mismatch": 1.0}
"""Of learning from reward: this model never ends an answer."""


@pytest.fixture
def bench(bench_home: Path) -> Bench:
    return Bench(bench_home)


def test_training_and_learning_pass_the_same_gate(bench: Bench, tmp_path: Path) -> None:
    tokenizer = make_tokenizer(template("qwen3_training"))
    base = save(qwen3(len(tokenizer)), tokenizer, tmp_path / "base")
    for name, text in (("start", SHORT), ("good", GOOD)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "INSTRUCTIONS.md").write_text(text)
    recipe = yaml.safe_load((resources.files("mcp_bench.trainer") / "recipes/tiny-cpu-grpo.yaml").read_text())
    del recipe["model"]["architecture"]  # the base has its own
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(recipe))
    settings = {
        "model.base": str(base),
        "training.epochs": 1,
        "rl.groups": 1,
        "rl.attempts": 2,
        "rl.max_tokens": 8,
        **{f"rl.guards.{name}": value for name, value in NO_GUARDS.items()},
    }
    done = bench.run(
        "improve", tmp_path / "out", "--benchmark", "doors", "--recipe", tmp_path / "mine.yaml",
        *(word for key, value in settings.items() for word in ("--set", f"{key}={value}")),
        "--harness", tmp_path / "start", "--candidate", tmp_path / "good",
        "--policy", "fixed:train,train,harness,rl", "--rl-steps", "1",
        "--generations", "5", "--patience", "5", "--train", "2", "--dev", dev_ids(tmp_path), "--repeat", "1",
        "--min-partial", "0", "--max-tokens", "8", "--json",
    )  # fmt: skip
    history = json.loads(done.stdout)
    assert [(one["action"], one["verdict"]) for one in history["generations"]] == [
        ("train", "not promoted"),
        ("train", "refused"),
        ("harness", "not promoted"),
        ("rl", "not promoted"),
        ("stop", "nothing to measure"),
    ]
    assert history["best"] == {"harness": 0, "weights": 0}
    assert history["generations"][1]["why"] == "generation 1 trained on the same episodes"
    out = tmp_path / "out"
    trained = json.loads((out / "generation-1" / "train.json").read_text())
    assert trained["runs"] == [json.loads((out / "h0-w0" / "train-0.json").read_text())["run"]]
    recorded = sum(len(list(RunReader(run).episode_ids())) for run in (bench.home / "runs").glob("run_*"))
    assert history["spent"]["episodes"] == recorded, "with the attempts to learn from"
    attempts = out / "generation-4" / "train" / "steps" / "1" / "attempts-0.run.json"
    with RunReader(bench.home / "runs" / json.loads(attempts.read_text())["run"]) as reader:
        [request, *_] = [
            reader.model_bodies(call.id)[0] for call in reader.model_calls(reader.episode_ids()[0])
        ]
    assert SHORT in str(request), "it learns in the best harness"
    models = {}
    for arm in ("h0-w0", "h0-w1", "h3-w0", "h0-w4"):
        run = json.loads((out / arm / "gate-0.json").read_text())["run"]
        with RunReader(bench.home / "runs" / run) as reader:
            found = reader.summary()
        models[arm] = found and found.model
    assert models == {"h0-w0": "out-w0", "h0-w1": "out-w1", "h3-w0": "out-w0", "h0-w4": "out-w4"}
