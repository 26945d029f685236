"""Recipes: built-in recipes, refusals and error messages."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from mcp_bench.servers.errors import UnknownNameError, WrongUseError
from mcp_bench.trainer.cli.train import train
from mcp_bench.trainer.launch import launch_line
from mcp_bench.trainer.recipe import load_recipe, shipped
from mcp_bench.trainer.refusals import refusals

pytestmark = pytest.mark.component

NAMES = [
    "gpt-oss-20b-lora-1gpu",
    "qwen3-8b-8xh100-cp",
    "qwen3.5-9b-8xh100-64k",
    "qwen3.5-9b-grpo-8gpu",
    "qwen3.5-9b-lora-1gpu",
    "smollm2-1.7b-lora-1gpu",
    "smollm2-135m-cpu",
    "smollm2-135m-gpu",
    "smollm2-135m-grpo",
    "tiny-cpu",
    "tiny-cpu-grpo",
    "tiny-cpu-grpo-imitate",
    "tiny-cpu-rft",
]


def test_a_relative_base_becomes_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An adapter is stored with its base, and may be served from elsewhere."""
    (tmp_path / "base").mkdir()
    monkeypatch.chdir(tmp_path)
    assert load_recipe("tiny-cpu", ["model.base=base"])[1].model.base == str(tmp_path / "base")


def test_the_home_is_found_where_no_shell_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for key in ("base", "tokenizer", "chat_template"):
        source = load_recipe("tiny-cpu", [f"model.{key}=~/mine"])[1].model
        assert getattr(source, key) == str(tmp_path / "mine")


def test_an_adapter_on_a_gguf_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "base.gguf"
    file.write_bytes(b"GGUF")
    overrides = [f"model.base={file}", "lora.rank=4", "training.optimizer=adamw"]
    [reason] = refusals(load_recipe("tiny-cpu", overrides)[1])
    assert f"mcp-bench train base {file} --name NAME" in reason


def test_built_in_recipes_are_listed_and_valid() -> None:
    result = CliRunner().invoke(train, ["recipes", "--json"])
    rows = json.loads(result.stdout)
    assert [row["name"] for row in rows] == NAMES == list(shipped())
    for row in rows:
        assert refusals(load_recipe(row["path"])[1]) == []


@pytest.mark.parametrize(
    ("override", "fault"),
    [
        ("training.learningrate=1", "training.learningrate: unknown key (did you mean learning_rate"),
        ("lora.rang=4", "lora.rang: unknown key (did you mean rank?)"),
        ("modle=1", "modle: unknown key (did you mean model?)"),
        (
            "training.precision=fp8",
            "training.precision: Input should be 'fp32', 'bf16-mixed' or 'bf16' (is 'fp8')",
        ),
        ("data.max_length=0", "data.max_length: Input should be greater than 0 (is 0)"),
        ("training.epochs=.inf", "training.epochs: Input should be a finite number (is inf)"),
        ("hardware.memory_gib=.inf", "hardware.memory_gib: Input should be a finite number (is inf)"),
        ("training.weight_decay=.inf", "training.weight_decay: Input should be a finite number (is inf)"),
        ("preference.beta=.inf", "preference.beta: Input should be a finite number (is inf)"),
        ("rl.learning_rate=.inf", "rl.learning_rate: Input should be a finite number (is inf)"),
        ("rl.kl=.inf", "rl.kl: Input should be a finite number (is inf)"),
        ("lora.dropout=1", "lora.dropout: Input should be less than 1 (is 1)"),
        ("training.seed=-1", "training.seed: Input should be greater than or equal to 0 (is -1)"),
        ("training.seed=4294967296", "training.seed: Input should be less than 4294967296 (is 4294967296)"),
        ("data.max_length=", "data.max_length: Input should be a valid integer (is None)"),
        ("model.architecture.num_key_value_heads=3", "must be a multiple of num_key_value_heads (3)"),
        ("model.architecture.layer_types=[full_attention]", "has 1 layers, but num_hidden_layers is 32"),
        ("data.max_length.x=1", "'max_length' is a value and has no keys"),
        ("data.max_length", "use key=value"),
        ("data.max_length=[", "the value is not YAML"),
    ],
)
def test_faults_name_their_key(override: str, fault: str) -> None:
    with pytest.raises(WrongUseError) as caught:
        load_recipe("qwen3.5-9b-lora-1gpu", [override])
    assert fault in str(caught.value)


def test_faults_name_their_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    content = yaml.safe_load(shipped()["tiny-cpu"].read_text())
    del content["training"]["learning_rate"], content["data"]
    file.write_text(yaml.safe_dump(content))
    with pytest.raises(WrongUseError) as caught:
        load_recipe(str(file))
    section = file.read_text().splitlines().index("training:") + 1
    assert str(caught.value).splitlines() == [
        f"{file}:1: data: missing",
        f"{file}:{section}: training.learning_rate: missing",
    ]
    with pytest.raises(WrongUseError) as caught:
        load_recipe(str(file), ["data.max_length=8"])
    assert str(caught.value) == f"{file} with --set:\n  training.learning_rate: missing"
    for text in ("- a\n- b\n", "a: [", "\xff"):
        file.write_text(text, encoding="latin-1")
        with pytest.raises(WrongUseError, match=str(file)):
            load_recipe(str(file))


def test_a_key_that_occurs_twice_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(f"summary: mine\n{shipped()['tiny-cpu'].read_text()}")
    with pytest.raises(WrongUseError, match="summary occurs twice"):
        load_recipe(str(file))


def test_what_is_wrong_with_the_file_itself_is_said(tmp_path: Path) -> None:
    with pytest.raises(WrongUseError, match="cannot read /proc/self/mem: "):  # not even root can, at 0
        load_recipe("/proc/self/mem")
    file = tmp_path / "empty.yaml"
    file.touch()
    with pytest.raises(WrongUseError, match="it must be a mapping of summary, model, "):
        load_recipe(str(file))


def test_an_unknown_recipe_has_near_matches() -> None:
    with pytest.raises(UnknownNameError, match="did you mean tiny-cpu"):
        load_recipe("tiny_cpu")
    with pytest.raises(WrongUseError, match=r"no recipe file 'tiny-cpus.yaml'.*did you mean tiny-cpu"):
        load_recipe("tiny-cpus.yaml")


CP, QWEN35, LORA = "qwen3-8b-8xh100-cp", "qwen3.5-9b-8xh100-64k", "qwen3.5-9b-lora-1gpu"
TINY, LEARNING = "tiny-cpu", "tiny-cpu-grpo"


@pytest.mark.parametrize(
    ("name", "overrides", "reason"),
    [
        (QWEN35, ["hardware.context_parallel=8", "training.attention=sdpa"], "24 of 32 layers are linear attention"),
        (CP, ["data.packing=true"], "data.packing with hardware.context_parallel"),
        (CP, ["hardware.sharding=none"], "needs hardware.sharding: fsdp2"),
        (CP, ["training.attention=kernels-community/flash-attn3"], "needs training.attention: sdpa"),
        (CP, ["hardware.devices=12"], "hardware.devices (12) is not a multiple of hardware.context_parallel (8)"),
        (CP, ["data.max_length=65536"], "exceeds the model's 40960 positions"),
        (TINY, ["hardware.devices=2", "hardware.sharding=fsdp2"], "fsdp2 is for GPUs"),
        (QWEN35, ["training.optimizer=muon"], "optimizer muon works on whole matrices"),
        (TINY, ["hardware.devices=12"], "every machine starts the same number"),
        (TINY, ["training.attention=kernels-community/flash-attn2"], "CUDA only"),
        (TINY, ["training.checkpointing=offload"], "from a GPU to the host"),
        (TINY, ["data.packing=true"], "data.packing needs a FlashAttention kernel"),
        (TINY, ["lora={targets: [q_proj]}"], "lora needs a base model"),
        (LORA, ["lora.targets=[q_porj]"], "the model has no 'q_porj' (did you mean q_proj"),
        (LORA, ["training.precision=fp32"], "computes in 16 bits"),
        (LORA, ["lora=null"], "largest part is optimizer: shard it"),
        (LORA, ["training.checkpointing=off", "data.max_length=65536"], "largest part is activations"),
        (QWEN35, ["hardware.devices=1"], "with one device shards nothing"),
        (LEARNING, ["lora={targets: [q_proj]}"], "trains all weights"),
        (LEARNING, ["training.precision=bf16"], "use bf16-mixed, or fp32"),
        (LEARNING, ["rl.ahead=1"], "rl.ahead=1 samples while weights change"),
        (LEARNING, ["rl.engine.devices=[1]"], "are for rl.engine.kind=vllm"),
        (LEARNING, ["rl.engine.kind=vllm", "rl.min_p=0.1"], "rl.min_p needs rl.engine.kind=torch"),
    ],
)  # fmt: skip
def test_impossible_recipes_are_refused_with_a_reason(name: str, overrides: list[str], reason: str) -> None:
    arguments = [part for override in overrides for part in ("--set", override)]
    result = CliRunner().invoke(train, ["plan", name, "--json", *arguments])
    assert isinstance(result.exception, WrongUseError)
    assert reason in str(result.exception)
    assert any(reason in why for why in json.loads(result.stdout)["refused"])


def test_what_only_learning_refuses_does_not_matter_with_rows(tmp_path: Path) -> None:
    row = {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes."}]}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n")
    asked = ["plan", "tiny-cpu-grpo", "--set", "rl.ahead=1", "--data", str(tmp_path / "rows.jsonl")]
    result = CliRunner().invoke(train, asked)
    assert result.exit_code == 0, result.exception
    assert "start with  mcp-bench train sft" in result.stdout


@pytest.mark.parametrize(
    ("overrides", "more"),
    [
        ([], "--tokenizer MODEL"),
        (["model.tokenizer=mine"], "--set model.tokenizer=mine"),
        (["model.base=mine"], "--set model.base=mine"),
    ],
)
def test_the_command_of_a_plan_names_the_tokenizer(overrides: list[str], more: str) -> None:
    """Without it, training is refused."""
    line = launch_line(load_recipe(TINY, overrides)[1], TINY, overrides, [])
    assert line == f"mcp-bench train sft tiny-cpu --data train.jsonl {more}"


@pytest.mark.parametrize(("devices", "machines"), [(8, 1), (16, 2)])
def test_torchrun_can_parse_the_batch_script(tmp_path: Path, devices: int, machines: int) -> None:
    from torch.distributed.run import parse_args

    for name in (CP, QWEN35):
        arguments = ["plan", name, "--write", str(tmp_path), "--set", f"hardware.devices={devices}", "--data"]
        data = tmp_path / "my rows.jsonl"
        data.write_text('{"messages": [{"role": "assistant", "content": "Yes."}]}\n')
        result = CliRunner().invoke(train, [*arguments, str(data)])
        assert result.exit_code == 0, result.exception
        script = (tmp_path / f"{name}.slurm").read_text()
        assert f"#SBATCH --nodes={machines}\n" in script
        line = shlex.split(script)[-1]
        assert line in result.stdout
        read: Any = parse_args(shlex.split(line)[1:])
        assert (read.nnodes, read.nproc_per_node) == ({1: "1:1", 2: "2"}[machines], "8")
        assert read.standalone == (machines == 1)
        assert read.rdzv_endpoint == ("" if machines == 1 else "$HEAD:29500")
        assert (read.module, read.training_script) == (True, "mcp_bench.bridge.cli.root")
        assert read.training_script_args == [
            *("train", "sft", name, "--data", str(data), "--set", f"hardware.devices={devices}"),
            *("--out", f"{name}-run"),
        ]


@pytest.mark.parametrize(("name", "gpus"), [(TINY, []), (QWEN35, ["#SBATCH --gpus-per-node=8"])])
def test_a_batch_script_asks_for_gpus_to_train_on_them(tmp_path: Path, name: str, gpus: list[str]) -> None:
    assert CliRunner().invoke(train, ["plan", name, "--write", str(tmp_path)]).exit_code == 0
    lines = (tmp_path / f"{name}.slurm").read_text().splitlines()
    assert [line for line in lines if "gpus" in line] == gpus
    assert lines[0] == "#!/bin/bash"
    assert "" not in lines


def test_a_folder_that_no_script_can_be_written_to_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "tiny-cpu.slurm").mkdir()
    for folder, said in ((tmp_path / "file" / "in", "cannot make the folder"), (tmp_path, "cannot write")):
        result = CliRunner().invoke(train, ["plan", TINY, "--write", str(folder)])
        assert isinstance(result.exception, WrongUseError)
        assert f"{said} {folder}" in str(result.exception)


def test_bash_can_parse_the_batch_script(tmp_path: Path) -> None:
    import subprocess

    arguments = ["plan", QWEN35, "--write", str(tmp_path), "--set", "summary=\"a\\nrm 'b'\""]
    assert CliRunner().invoke(train, arguments).exit_code == 0
    script = tmp_path / f"{QWEN35}.slurm"
    subprocess.run(["bash", "-n", str(script)], check=True, timeout=30)
    assert not any(line.startswith("rm") for line in script.read_text().splitlines())


def test_sharding_settings_come_from_the_recipe(tmp_path: Path) -> None:
    from mcp_bench.trainer.sft.trainer_inputs import sft_config

    for name, together in ((QWEN35, 1), (CP, 8)):
        _, recipe = load_recipe(name, ["training.precision=fp32", "training.attention=sdpa"])
        made = sft_config(recipe, tmp_path, sequences=1, accumulate=1, layers=["DecoderLayer"])
        plugin = made.fsdp_plugin_args
        assert (plugin["fsdp_version"], plugin["transformer_cls_names_to_wrap"]) == (2, "DecoderLayer")
        shared = made.parallelism_config
        assert (shared.cp_size if shared else 1) == together
