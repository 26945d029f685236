"""`train dpo` and `train kto`: what they learn, from which tokens, and what they refuse."""

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
from click.testing import CliRunner, Result

from mcp_bench.servers.errors import BenchError, FruitlessError, WrongUseError
from mcp_bench.trainer.cli.train import train
from mcp_bench.trainer.preference.train import make_ready
from mcp_bench.trainer.preference.trainers import attempt_rows
from mcp_bench.trainer.recipe import load_recipe
from mcp_bench.trainer.trial.commands import MODULE
from tests.support.recorded import Episode, planned, record
from tests.support.training.short_training import NAMES, curve, rows, save_tokenizer, settings, write_rows

pytestmark = pytest.mark.component


def call(name: str) -> dict[str, Any]:
    function = {"name": "find", "arguments": {"name": name}}
    return {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": function}]}


def pairs(count: int = 8) -> list[dict[str, Any]]:
    """Return questions with an attempt that asks for the right name, and one that asks for the next."""
    made = []
    for number, row in enumerate(rows(count)):
        wrong = NAMES[(number + 1) % len(NAMES)]
        result = {"role": "tool", "tool_call_id": "c", "name": "find", "content": f"Found {wrong}."}
        made.append(
            {
                "prompt": row["messages"][:1],
                "chosen": row["messages"][1:],
                "rejected": [call(wrong), result, {"role": "assistant", "content": "Done."}],
                "tools": row["tools"],
            }
        )
    return made


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of random weights, which serves as the start."""
    folder = tmp_path_factory.mktemp("start")
    tokenizer = save_tokenizer(folder / "tokenizer")
    data = write_rows(folder / "train.jsonl", rows(4))
    run("sft", "tiny-cpu", "--data", data, "--tokenizer", tokenizer, "--out", folder / "run", *settings())
    return folder / "run" / "model"


def run(*words: object) -> Result:
    result = CliRunner().invoke(train, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def options(start: Path, **changed: object) -> list[str]:
    return settings(
        model__base=str(start), model__architecture=None, preference__learning_rate=1e-3,
        training__epochs=4, **changed,
    )  # fmt: skip


def margins(start: Path, data: Path, model: Path) -> float:
    """Return by how much a model prefers the chosen attempts more than the start does, in nats."""
    from transformers import AutoModelForCausalLM

    _, recipe = load_recipe("tiny-cpu", [f"model.base={start}", "model.architecture=null"])
    prepared = make_ready(recipe, str(start), [data]).prepared
    found = []
    for folder in (start, model):
        loaded: Any = AutoModelForCausalLM.from_pretrained(folder).eval()
        total = 0.0
        for sign, examples in ((1, prepared.examples), (-1, prepared.rejected)):  # type: ignore[attr-defined]
            for example in examples:
                with torch.inference_mode():
                    logs = loaded(torch.tensor([list(example.tokens)])).logits[0].log_softmax(-1)
                each = logs[:-1].gather(1, torch.tensor(list(example.tokens))[1:, None])[:, 0]
                total += sign * float(each[torch.tensor(list(example.trained)[1:]) == 1].sum())
        found.append(total / len(prepared.examples))
    return found[1] - found[0]


@pytest.mark.parametrize("method", ["dpo", "kto"])
def test_the_better_attempt_becomes_more_likely(method: str, start: Path, tmp_path: Path) -> None:
    data = write_rows(tmp_path / "pairs.jsonl", pairs())
    out = tmp_path / "run"
    result = run(method, "tiny-cpu", "--data", data, "--out", out, "--json", *options(start))
    assert json.loads(result.stdout)["model"] == str(out / "model")
    losses = [loss for _, loss, _ in curve(out)]
    assert losses[0] == pytest.approx(0.6931 if method == "dpo" else 0.5, abs=1e-3)  # the start itself
    assert losses[-1] < losses[0] - 0.01
    assert margins(start, data, out / "model") > 0.5
    assert (out / "model" / "chat_template.jinja").is_file()  # ready to serve


def test_kto_makes_no_sequence_longer_than_the_limit(start: Path, tmp_path: Path) -> None:
    """A short prompt gets the answer of another task, and a long one, too."""
    made = pairs(4)
    made[0]["prompt"][0]["content"] *= 40
    data = write_rows(tmp_path / "pairs.jsonl", made)
    _, recipe = load_recipe("tiny-cpu", [f"model.base={start}", "model.architecture=null"])
    prepared: Any = make_ready(recipe, str(start), [data], method="kto").prepared
    longest = max(len(one.tokens) for one in (*prepared.examples, *prepared.rejected))
    for limit in (longest, longest + 40):
        columns = attempt_rows(prepared, 0, limit)
        sizes = [len(ids) for ids in columns["other_ids"]]
        assert max(sizes) <= limit
        assert all(any(mask) for mask in columns["other_mask"])
    free = [len(ids) for ids in attempt_rows(prepared, 0, 10**6)["other_ids"]]
    assert max(free) > longest  # without the limit, they would be longer


def test_results_of_tools_have_no_loss(start: Path, tmp_path: Path) -> None:
    data = write_rows(tmp_path / "pairs.jsonl", pairs(1))
    _, recipe = load_recipe("tiny-cpu", [f"model.base={start}", "model.architecture=null"])
    ready = make_ready(recipe, str(start), [data])
    [example] = ready.prepared.rejected  # type: ignore[attr-defined]
    trained = [token for token, flag in zip(example.tokens, example.trained, strict=True) if flag]
    text = ready.tokenizer.decode(trained)
    assert "Done." in text
    assert "find" in text
    assert "Found" not in text
    assert "Found" in ready.tokenizer.decode(list(example.tokens))


@pytest.mark.parametrize("why", ["weight", "failed"])
def test_turns_that_are_not_trained_on_have_no_loss(why: str, start: Path, tmp_path: Path) -> None:
    [pair] = pairs(1)
    if why == "weight":
        pair["rejected"][0]["weight"] = 0
    else:
        pair["rejected"][1]["is_error"] = True
    data = write_rows(tmp_path / "pairs.jsonl", [pair])
    over = [f"model.base={start}", "model.architecture=null", "data.failed_calls=mask"]
    ready = make_ready(load_recipe("tiny-cpu", over)[1], str(start), [data])
    [example] = ready.prepared.rejected  # type: ignore[attr-defined]
    trained = [token for token, flag in zip(example.tokens, example.trained, strict=True) if flag]
    text = ready.tokenizer.decode(trained)
    assert "Done." in text and "find" not in text
    assert ready.prepared.masked_tokens == example.masked > 0


def test_a_pair_with_a_turn_of_half_weight_is_refused(start: Path, tmp_path: Path) -> None:
    [pair] = pairs(1)
    pair["chosen"][0]["weight"] = 0.5
    data = write_rows(tmp_path / "pairs.jsonl", [pair])
    with pytest.raises(WrongUseError, match="a turn has a weight between 0 and 1"):
        run("dpo", "tiny-cpu", "--data", data, "--out", tmp_path / "run", *options(start))


@pytest.mark.parametrize("method", ["dpo", "kto"])
def test_a_resumed_run_equals_an_uninterrupted_one(method: str, start: Path, tmp_path: Path) -> None:
    data = write_rows(tmp_path / "pairs.jsonl", pairs(4))
    out = tmp_path / "run"
    run(
        method, "tiny-cpu", "--data", data, "--out", out, *options(start)
    )  # four steps, with a checkpoint at 3
    shutil.rmtree(out / "checkpoints" / "checkpoint-4")
    (out / "model").rename(tmp_path / "first")
    run(method, "--resume", out)
    first = (tmp_path / "first" / "model.safetensors").read_bytes()
    assert (out / "model" / "model.safetensors").read_bytes() == first


def test_a_run_is_resumed_by_its_own_command(start: Path, tmp_path: Path) -> None:
    data = write_rows(tmp_path / "pairs.jsonl", pairs(2))
    out = tmp_path / "run"
    run("dpo", "tiny-cpu", "--data", data, "--out", out, *options(start))
    with pytest.raises(WrongUseError, match="mcp-bench train dpo --resume"):
        run("kto", "--resume", out)
    assert "already complete" in run("dpo", "--resume", out).stderr


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"rejected": None}, "rejected is not a list"),
        ({"chosen": [{"role": "nobody"}]}, r"messages\[1\]: role is 'nobody'"),
        ({"chosen": []}, "no assistant tokens"),
    ],
)
def test_broken_pairs(change: dict[str, Any], said: str, start: Path, tmp_path: Path) -> None:
    data = write_rows(tmp_path / "pairs.jsonl", [{**pairs(1)[0], **change}])
    with pytest.raises(BenchError, match=said):
        run("dpo", "tiny-cpu", "--data", data, "--out", tmp_path / "run", *options(start))


def test_rft_needs_recordings() -> None:
    with pytest.raises(WrongUseError, match="a --run, or use --resume"):
        run("rft", "tiny-cpu")


def test_rft_without_a_solved_attempt_is_fruitless(tmp_path: Path) -> None:
    made, _ = record([(planned(), Episode(partial=0.5))], benchmark="saasworld")
    with pytest.raises(FruitlessError) as ended:
        run("rft", "tiny-cpu", "--run", made.id, "--out", tmp_path / "run")
    assert ended.value.exit_code == 3


def test_rft_that_does_not_begin_leaves_nothing(bench_home: Path) -> None:
    made, _ = record([(planned(), Episode(partial=1.0)), (planned("b"), Episode(partial=0.5))])
    for run_id, said in (("run_none", "exit code 2"), (made.id, "use --tokenizer")):
        with pytest.raises(BenchError, match=said):
            run("rft", "tiny-cpu", "--run", run_id)
    assert not [*(bench_home / "training").iterdir()]


def test_a_resumed_rft_keeps_its_recordings(tmp_path: Path) -> None:
    wrong = CliRunner().invoke(
        train, ["rft", "tiny-cpuu", "--run", "run_1", "--out", str(tmp_path / "better")]
    )
    assert "did you mean tiny-cpu" in str(wrong.exception)
    assert not [*tmp_path.iterdir()], "the corrected command can be typed"
    refused = CliRunner().invoke(train, ["rft", "--resume", str(tmp_path), "--best", "2"])
    assert refused.exit_code == 2
    assert "--resume keeps the run's own settings: leave out --best" in refused.output


def test_rows_that_are_no_pairs(start: Path, tmp_path: Path) -> None:
    data = write_rows(tmp_path / "train.jsonl", rows(1))
    with pytest.raises(BenchError, match="write pairs with: mcp-bench export --pairs"):
        run("dpo", "tiny-cpu", "--data", data, "--out", tmp_path / "run", *options(start))


TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "--", MODULE[1])


@pytest.mark.full
@pytest.mark.parametrize("method", ["dpo", "kto"])
def test_two_processes_learn_the_same_as_one(start: Path, method: str, tmp_path: Path) -> None:
    """On CPUs, where the weights are not sharded."""
    data, batch, losses = write_rows(tmp_path / "pairs.jsonl", pairs()), 4, []
    for devices, launcher in ((1, MODULE), (2, TORCHRUN)):
        changed = {"hardware__devices": devices, "training__sequences_per_device": batch // devices}
        out = tmp_path / f"{devices}"
        words = [method, "tiny-cpu", "--data", data, "--out", out, *options(start, **changed)]
        argv = [sys.executable, *launcher, "train", *map(str, words)]
        done = subprocess.run(argv, env=dict(os.environ), capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        losses.append([loss for _, loss, _ in curve(out)])
    assert len(losses[0]) == 4 * len(pairs()) // batch
    assert losses[1] == pytest.approx(losses[0], abs=1e-3)


@pytest.mark.parametrize(
    ("method", "setting", "said"),
    [
        ("dpo", "preference.desirable=2", "preference.desirable has no effect with dpo"),
        ("kto", 'preference.loss="ipo"', "preference.loss has no effect with kto"),
        ("dpo", "training.precision=bf16", "use bf16-mixed, fp32, or lora"),
    ],
)
def test_settings_without_effect_are_refused(
    start: Path, method: str, setting: str, said: str, tmp_path: Path
) -> None:
    data = write_rows(tmp_path / "pairs.jsonl", pairs())
    with pytest.raises(WrongUseError, match=said):
        run(method, "tiny-cpu", "--data", data, "--out", tmp_path / "run", *options(start), "--set", setting)
