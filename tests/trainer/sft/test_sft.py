"""Training from rows to a servable model: interruption, resuming, loss checks and refusals."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mcp_bench.bridge.cli.root import root
from mcp_bench.servers.errors import MissingDependencyError, WrongUseError
from tests.support.training.byte_tokenizers import CHATML, byte_tokenizer
from tests.support.training.short_training import curve, rows, save_tokenizer, settings, sft, write_rows

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tokenizer(tmp_path_factory.mktemp("tokenizer"))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_rows(tmp_path / "train.jsonl", rows())


def test_rows_become_a_model_that_can_be_served(tmp_path: Path, data: Path, tokenizer: Path) -> None:
    out = tmp_path / "run"
    result = sft(
        "tiny-cpu",
        "--data",
        data,
        "--tokenizer",
        tokenizer,
        "--out",
        out,
        "--json",
        *settings(training__epochs=4),
    )
    document = json.loads(result.stdout)
    assert document["model"] == str(out / "model")
    assert (document["step"], document["steps"]) == (12, 12)
    losses = [loss for _, loss, _ in curve(out)]
    assert len(losses) == 12
    assert losses[-1] < losses[0] / 1.2

    from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

    model = AutoModelForCausalLM.from_pretrained(out / "model")
    assert sum(weight.numel() for weight in model.parameters()) < 100_000
    served = AutoTokenizer.from_pretrained(out / "model")
    assert "{% generation %}" in served.chat_template
    assert GenerationConfig.from_pretrained(out / "model").eos_token_id == [served.eos_token_id]
    described = json.loads((out / "data.json").read_text())
    assert (described["rows"], described["too_long"], described["untrainable"]) == (12, [], [])


def test_unusable_rows_are_dropped_and_named(tmp_path: Path, tokenizer: Path) -> None:
    long, silent = rows(1)[0], rows(1)[0]
    long["messages"][0]["content"] = "x" * 600
    silent["messages"] = silent["messages"][:1]
    data = write_rows(tmp_path / "train.jsonl", [*rows(4), long, silent])
    out = tmp_path / "run"
    result = sft("tiny-cpu", "--data", data, "--tokenizer", tokenizer, "--out", out, *settings())
    assert "dropped: 1 too long, 1 without trainable tokens" in result.stderr
    described = json.loads((out / "data.json").read_text())
    assert [row["place"] for row in described["too_long"]] == [f"{data}:5"]
    assert described["untrainable"] == [f"{data}:6"]
    assert len(curve(out)) == 1


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(signal.SIGKILL, id="SIGKILL"),
        pytest.param(signal.SIGTERM, id="SIGTERM", marks=pytest.mark.full),
    ],
)
def test_a_resumed_run_equals_an_uninterrupted_one(
    tmp_path: Path, data: Path, tokenizer: Path, number: signal.Signals
) -> None:
    arguments = [
        "tiny-cpu",
        "--data",
        data,
        "--tokenizer",
        tokenizer,
        "--eval-data",
        data,
        *settings(training__epochs=15, data__group_by_length=True, training__eval_every=3),
    ]
    whole = tmp_path / "whole"
    sft(*arguments, "--out", whole, "--set", "training.save_every=1000")

    out = tmp_path / "ended"
    command = [sys.executable, "-m", "mcp_bench.bridge.cli.root", "train", "sft", *arguments, "--out", out]
    with subprocess.Popen([str(word) for word in command], stderr=subprocess.PIPE) as process:
        wait_for(out / "checkpoints", "checkpoint-*/whole", process)
        process.send_signal(number)
        _, output = process.communicate(timeout=120)
    assert process.returncode == (-9 if number == signal.SIGKILL else 1)
    if number == signal.SIGTERM:
        assert f"--resume {out}" in output.decode()
    assert not (out / "model").exists()
    before = curve(out)

    sft("--resume", out)
    assert curve(out)[: len(before)][0] == before[0]
    assert curve(out) == curve(whole)
    assert (out / "evaluations.jsonl").read_text() == (whole / "evaluations.jsonl").read_text()
    assert (out / "model" / "model.safetensors").read_bytes() == (
        whole / "model" / "model.safetensors"
    ).read_bytes()
    again = sft("--resume", out, "--json")
    assert f"{out} is already complete" in again.stderr
    assert json.loads(again.stdout)["model"] == str(out / "model")


def test_no_step_is_trained_after_the_last_checkpoint(tmp_path: Path, data: Path, tokenizer: Path) -> None:
    """A kill while the model is written leaves a run so; its last epoch has two of three steps."""
    out = tmp_path / "run"
    more = settings(training__epochs=1.5, training__eval_every=1)
    sft("tiny-cpu", "--data", data, "--eval-data", data, "--tokenizer", tokenizer, "--out", out, *more)
    written = ("metrics.jsonl", "evaluations.jsonl", "model/model.safetensors")
    before = [(out / name).read_bytes() for name in written]
    shutil.rmtree(out / "model")
    document = json.loads(sft("--resume", out, "--json").stdout)
    assert (document["step"], document["steps"]) == (5, 5)
    assert [(out / name).read_bytes() for name in written] == before


def rates(out: Path) -> list[float]:
    return [json.loads(line)["learning_rate"] for line in (out / "metrics.jsonl").read_text().splitlines()]


def test_the_rate_rises_before_it_is_constant(tmp_path: Path, data: Path, tokenizer: Path) -> None:
    more = settings(
        training__epochs=2, training__scheduler="constant", training__warmup_ratio=0.5,
        training__optimizer="adamw", training__learning_rate=3e-3,
    )  # fmt: skip
    sft("tiny-cpu", "--data", data, "--tokenizer", tokenizer, "--out", tmp_path / "run", *more)
    assert rates(tmp_path / "run") == pytest.approx([0, 1e-3, 2e-3, 3e-3, 3e-3, 3e-3])


def test_a_single_step_teaches_something(tmp_path: Path, tokenizer: Path) -> None:
    """A warm-up begins at 0, and would be all of it."""
    data = write_rows(tmp_path / "train.jsonl", rows(4))
    sft("tiny-cpu", "--data", data, "--tokenizer", tokenizer, "--out", tmp_path / "run", *settings())
    [rate] = rates(tmp_path / "run")
    assert rate > 0


def wait_for(folder: Path, pattern: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 300
    while not any(folder.glob(pattern)):
        assert time.monotonic() < deadline
        try:
            process.wait(0.05)
        except subprocess.TimeoutExpired:
            continue
        raise AssertionError(process.communicate()[1].decode())


def test_a_nan_loss_stops_the_run_and_keeps_checkpoints(tmp_path: Path, data: Path, tokenizer: Path) -> None:
    from mcp_bench.trainer.sft.guards import DivergedError

    out = tmp_path / "run"
    with pytest.raises(DivergedError) as caught:
        sft(
            "tiny-cpu", "--data", data, "--tokenizer", tokenizer, "--out", out,
            *settings(
                training__epochs=10, training__save_every=1, training__learning_rate=1e38,
                training__scheduler="linear", training__warmup_ratio=0.5,
            ),
        )  # fmt: skip
    text = str(caught.value)
    assert re.match(r"the (loss|gradient norm) is (nan|inf) ", text)
    assert f"{data}:" in text
    [checkpoint] = [word.rstrip(".") for word in text.split() if "checkpoint-" in word]
    assert (Path(checkpoint) / "whole").is_file()
    assert not (out / "model").exists()


def test_out_of_memory_halves_the_batch_and_keeps_the_step(
    tmp_path: Path, data: Path, tokenizer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is simulated, since real memory exhaustion would break other tests."""
    from mcp_bench.trainer.sft.guarded import GuardedTrainer

    arguments = ["tiny-cpu", "--data", data, "--tokenizer", tokenizer, *settings(training__epochs=2)]
    sft(*arguments, "--out", tmp_path / "roomy")

    plain, sizes = GuardedTrainer.training_step, []

    def narrow(self: Any, model: Any, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        sizes.append(len(inputs["input_ids"]))
        if sizes[-1] > 2:
            raise RuntimeError(
                "[enforce fail at alloc_cpu.cpp:121] DefaultCPUAllocator: can't allocate memory"
            )
        return plain(self, model, inputs, *args, **kwargs)

    monkeypatch.setattr(GuardedTrainer, "training_step", narrow)
    result = sft(*arguments, "--out", tmp_path / "narrow", "--eval-data", data)
    assert "continuing with 2 sequences at once, 2 times per step" in result.stderr
    assert set(sizes[1:]) == {2}
    for one, other in zip(curve(tmp_path / "roomy"), curve(tmp_path / "narrow"), strict=True):
        assert one == pytest.approx(other, rel=1e-3)
    scores = (tmp_path / "narrow" / "evaluations.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in scores] == [0, 3, 6]


def test_a_single_sequence_too_large_for_memory_is_an_error(
    tmp_path: Path, data: Path, tokenizer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mcp_bench.trainer.sft.guarded import GuardedTrainer
    from mcp_bench.trainer.sft.train import OutOfMemoryError

    def full(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")

    monkeypatch.setattr(GuardedTrainer, "training_step", full)
    with pytest.raises(OutOfMemoryError, match=r"1 sequence\(s\) of up to \d+ tokens.*max_length"):
        sft("tiny-cpu", "--data", data, "--tokenizer", tokenizer, "--out", tmp_path / "run", *settings())


def test_wrong_use_is_refused_before_anything_is_written(tmp_path: Path, data: Path, tokenizer: Path) -> None:
    out = tmp_path / "run"
    empty = tmp_path / "empty.jsonl"
    empty.touch()
    bare = tmp_path / "bare"
    byte_tokenizer(None, ("<|im_end|>",)).save_pretrained(bare)  # without turn tokens
    weightless = save_tokenizer(tmp_path / "weightless")
    (weightless / "config.json").write_text('{"model_type": "qwen3"}')
    refused: list[tuple[list[object], str]] = [
        ([], "name a recipe"),
        (["tiny-cpu"], "no rows to train on"),
        (["tiny-cpu", "--data", data], "name one with --set model.base=MODEL"),
        (["tiny-cpu", "--data", empty, "--tokenizer", tokenizer], "no row in"),
        (["tiny-cpu", "--data", data, "--tokenizer", bare], "has no chat template"),
        (["tiny-cpu", "--data", data, "--tokenizer", tmp_path / "none"], "no tokenizer in"),
        (["tiny-gpu", "--data", data], "unknown recipe 'tiny-gpu' (did you mean tiny-cpu, "),
        (["zzz", "--data", data], "unknown recipe 'zzz' (see `mcp-bench train recipes`)"),
        (["qwen3.5-9b-lora-1gpu", "--data", data, "--tokenizer", tokenizer], "torch finds no GPU"),
        (
            ["tiny-cpu", "--data", data, "--tokenizer", tokenizer, "--set", "hardware.devices=2"],
            "the number of processes is 1",
        ),
        (["--resume", out], "no training run in"),
    ]
    if find_spec("trackio") is None:
        with pytest.raises(MissingDependencyError, match="pip install trackio"):
            sft("tiny-cpu", "--data", data, "--tokenizer", tokenizer, "--out", out, "--report-to", "trackio")
        assert not out.exists()
    if find_spec("kernels") is None:
        refused.append(
            (
                ["qwen3.5-9b-lora-1gpu", "--data", data, "--tokenizer", tokenizer],
                "needs the Python package kernels",
            )
        )
    for arguments, reason in refused:
        with pytest.raises(WrongUseError) as caught:
            sft(*arguments, *([] if "--resume" in arguments else ["--out", out]))
        assert reason in str(caught.value)
        assert not out.exists()
    with pytest.raises(WrongUseError, match=r"has no weights \(\*\.safetensors\)"):
        sft("tiny-cpu", "--data", data, "--out", out, *settings(model__base=str(weightless)))


@pytest.mark.parametrize("method", ["sft", "dpo", "kto", "rft"])
def test_a_resumed_training_keeps_its_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    file = tmp_path / "config.toml"
    file.write_text(f'[train.{method}]\ntokenizer = "mine"\n')  # a default, which nobody typed
    monkeypatch.setenv("MCP_BENCH_CONFIG", str(file))
    for more, word in ((["tiny-cpu"], "RECIPE"), (["--tokenizer", "x"], "--tokenizer")):
        refused = CliRunner().invoke(root, ["train", method, "--resume", str(tmp_path), *more])
        assert refused.exit_code == 2
        assert f"--resume keeps the run's own settings: leave out {word}" in refused.output
    allowed = CliRunner().invoke(root, ["train", method, "--resume", str(tmp_path)])
    assert "no training run in" in str(allowed.exception)


def test_attempts_are_exported_beside_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also beside the one that the command is typed in."""
    (tmp_path / "better").mkdir()
    (tmp_path / "better.jsonl").touch()
    monkeypatch.chdir(tmp_path / "better")
    refused = CliRunner().invoke(root, ["train", "rft", "tiny-cpu", "--run", "run_0", "--out", "."])
    assert f"{tmp_path / 'better.jsonl'} exists" in str(refused.exception)


def test_a_changed_template_is_refused(tmp_path: Path, data: Path, tokenizer: Path) -> None:
    out, file = tmp_path / "run", tmp_path / "own.jinja"
    file.write_text(CHATML, encoding="utf-8")
    options = settings(model__chat_template=str(file))
    sft("tiny-cpu", "--data", data, "--tokenizer", tokenizer, "--out", out, *options)
    (out / "model").rename(tmp_path / "elsewhere")
    file.write_text(f"{CHATML}\n", encoding="utf-8")
    with pytest.raises(WrongUseError, match=r"own\.jinja has changed since the run started"):
        sft("--resume", out)
    file.unlink()
    with pytest.raises(WrongUseError, match=r"own\.jinja, which the run started with, is missing"):
        sft("--resume", out)


def test_existing_runs_and_changed_rows_are_refused(tmp_path: Path, data: Path, tokenizer: Path) -> None:
    out = tmp_path / "run"
    arguments = ["tiny-cpu", "--data", data, "--tokenizer", tokenizer, "--out", out, *settings()]
    sft(*arguments)
    with pytest.raises(WrongUseError, match="is not empty: resume with --resume"):
        sft(*arguments)
    (out / "model").rename(tmp_path / "elsewhere")
    write_rows(data, rows(4))
    with pytest.raises(WrongUseError, match="has changed since the run started"):
        sft("--resume", out)
