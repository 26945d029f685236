"""Plans: parameter counts equal torch's, memory follows the settings, steps follow from the rows."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mcp_bench.servers.errors import WrongUseError
from mcp_bench.trainer.architecture import Architecture
from mcp_bench.trainer.cli.train import train
from mcp_bench.trainer.recipe import load_recipe, shipped
from mcp_bench.trainer.sft.model import layer_classes

pytestmark = pytest.mark.component


def _plan(*arguments: str) -> dict[str, Any]:
    result = CliRunner().invoke(train, ["plan", "--json", *arguments])
    assert result.exit_code == 0, result.exception
    document: dict[str, Any] = json.loads(result.stdout)
    return document


@pytest.mark.parametrize("name", list(shipped()))
@pytest.mark.filterwarnings("default")  # ignore warnings of torch and related packages
def test_parameters_equal_those_of_the_model(name: str) -> None:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    size = load_recipe(name)[1].architecture
    config = AutoConfig.for_model(size.model_type, **size.configuration())
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    seen = {id(p): p.numel() for p in model.parameters()}
    assert sum(seen.values()) == sum(size.parameters().values()) == _plan(name)["total"]
    assert layer_classes(model) == sorted({type(layer).__name__ for layer in model.model.layers})
    kinds = {
        name.rsplit(".", 1)[-1]
        for name, _ in model.named_modules()
        if name.endswith("_proj") or "in_proj_" in name
    }
    assert kinds == set(size.projections())


@pytest.mark.filterwarnings("default")  # ignore warnings of torch and related packages
def test_adapter_parameters_equal_those_of_peft() -> None:
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoConfig, AutoModelForCausalLM

    size = load_recipe("qwen3.5-9b-lora-1gpu")[1].architecture
    small = Architecture(**{**size.model_dump(), "num_hidden_layers": 4, "vocab_size": 64})
    config = AutoConfig.for_model(small.model_type, **small.configuration())
    targets = ["q_proj", "in_proj_qkv", "out_proj", "down_proj"]
    with torch.device("meta"):
        model = get_peft_model(
            AutoModelForCausalLM.from_config(config), LoraConfig(r=8, target_modules=targets)
        )
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    assert trained == small.lora_parameters(8, targets)


def test_a_plan_starts_without_torch() -> None:
    code = (
        "import sys; from click.testing import CliRunner; from mcp_bench.trainer.cli.train import train;"
        "assert CliRunner().invoke(train, ['plan', 'tiny-cpu']).exit_code == 0;"
        "print([name for name in ('torch', 'transformers', 'numpy') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "[]\n"


def test_sharding_divides_what_is_stored() -> None:
    # as in ZeRO: 4 + 4 + 8 bytes per parameter, divided by the devices
    eight = _plan("qwen3.5-9b-8xh100-64k")
    stored = sum(eight["memory"][part] for part in ("weights", "gradients", "optimizer"))
    assert abs(stored - eight["total"] * 16 / 8) < 8
    assert eight["tokens_per_step"] == 8 * 2 * 65536
    sixteen = _plan("qwen3.5-9b-8xh100-64k", "--set", "hardware.devices=16")
    assert sixteen["memory"]["optimizer"] == eight["memory"]["optimizer"] // 2
    assert sixteen["memory"]["activations"] == eight["memory"]["activations"]


def test_context_parallelism_divides_a_sequence() -> None:
    plan = _plan("qwen3-8b-8xh100-cp")
    assert (plan["device_tokens"], plan["sequences_per_step"]) == (32768 // 8, 16)
    assert plan["tokens_per_step"] == 16 * 32768


def test_checkpointing_moves_activations() -> None:
    base = ["qwen3.5-9b-8xh100-64k", "--set", "data.max_length=4096", "--set"]
    off, on, offload = (_plan(*base, f"training.checkpointing={way}") for way in ("off", "on", "offload"))
    assert off["memory"]["activations"] > 5 * on["memory"]["activations"] > on["memory"]["activations"]
    moved = on["memory"]["activations"] - offload["memory"]["activations"]
    assert moved == 30 * 4096 * 4096 * 2  # 16-bit inputs of all layers but two
    assert offload["host_bytes"] == 32 * 4096 * 4096 * 2
    assert on["host_bytes"] == off["host_bytes"] == 0


def _file(tmp_path: Path, rows: int) -> Path:
    file = tmp_path / "train.jsonl"
    row = {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes."}]}
    file.write_text(f"{json.dumps(row)}\n" * rows)
    return file


def test_steps_come_from_the_rows(tmp_path: Path) -> None:
    assert _plan("tiny-cpu")["steps"] is None
    data = ["--data", str(_file(tmp_path, 33))]
    plan = _plan("tiny-cpu", *data, "--set", "training.epochs=1.5")
    assert (plan["rows"], plan["steps_per_epoch"], plan["steps"]) == (33, 5, 8)
    packed = _plan("qwen3.5-9b-lora-1gpu", *data, "--set", "data.packing=true")
    assert (packed["rows"], packed["steps"]) == (33, None)


def test_the_tokenizer_option_needs_rows(tmp_path: Path) -> None:
    result = CliRunner().invoke(train, ["plan", "tiny-cpu", "--tokenizer", str(tmp_path)])
    assert isinstance(result.exception, WrongUseError)
    assert "--data" in str(result.exception)


def test_the_terminal_shows_the_same_figures(tmp_path: Path) -> None:
    shown = (
        CliRunner().invoke(train, ["plan", "qwen3-8b-8xh100-cp", "--data", str(_file(tmp_path, 17))]).stdout
    )
    for figure in (
        "8.19B",
        "16 sequences, up to 524,288 tokens",
        "4 (2 per epoch)",
        "of 79.0 GiB per device",
    ):
        assert figure in shown
