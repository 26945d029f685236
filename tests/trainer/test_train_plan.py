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
from mcp_bench.trainer.architectures.architecture import Architecture
from mcp_bench.trainer.architectures.base_sizes import read_architecture
from mcp_bench.trainer.architectures.counted import count
from mcp_bench.trainer.architectures.layers import FAMILIES
from mcp_bench.trainer.cli.train import train
from mcp_bench.trainer.memory import trained_parameters
from mcp_bench.trainer.recipe import load_recipe, shipped
from mcp_bench.trainer.sft.model import layer_classes

pytestmark = pytest.mark.component


def _plan(*arguments: str) -> dict[str, Any]:
    result = CliRunner().invoke(train, ["plan", "--json", *arguments])
    assert result.exit_code == 0, result.exception
    document: dict[str, Any] = json.loads(result.stdout)
    return document


@pytest.mark.parametrize("name", list(shipped()))
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
    kinds |= {  # of experts that are fused into one parameter
        ".".join(name.split(".")[-2:]) for name, _ in model.named_parameters() if name.endswith("_proj")
    }
    assert kinds == set(size.projections())


MIXED: dict[str, dict[str, Any]] = {
    "llama": {"attention_bias": True, "mlp_bias": True},
    "mistral": {"sliding_window": 64},
    "qwen3_moe": {"num_experts": 4, "moe_intermediate_size": 24, "mlp_only_layers": [1]},
    "gpt_oss": {"num_local_experts": 4, "max_position_embeddings": 131072},
    "glm4_moe": {
        "n_routed_experts": 4,
        "moe_intermediate_size": 24,
        "n_shared_experts": 2,
        "attention_bias": True,
        "use_qk_norm": True,
    },
}
"""What differs from the defaults, for each type with parts that not every model has."""

SMALL = {
    **{"vocab_size": 99, "hidden_size": 48, "intermediate_size": 40, "num_hidden_layers": 4},
    **{"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16},
}


@pytest.mark.parametrize("kind", list(FAMILIES))
def test_counts_equal_those_of_torch_and_peft(tmp_path: Path, kind: str) -> None:
    import torch
    from peft import get_peft_model
    from transformers import AutoConfig, AutoModelForCausalLM

    from mcp_bench.trainer.sft.model import adapter

    config = AutoConfig.for_model(kind, **SMALL, **MIXED.get(kind, {}))
    config.save_pretrained(tmp_path)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    seen = {id(weight): weight.numel() for weight in model.parameters()}
    size = read_architecture(str(tmp_path))
    assert type(size) is Architecture
    assert sum(size.parameters().values()) == sum(seen.values())
    again = AutoConfig.for_model(kind, **size.configuration())
    with torch.device("meta"):
        repeated = AutoModelForCausalLM.from_config(again)
    shapes = [{name: weight.shape for name, weight in one.named_parameters()} for one in (model, repeated)]
    assert shapes[0] == shapes[1]

    counted = count(config, kind)
    assert counted.parameters() == size.parameters()
    assert set(counted.projections()) == set(size.projections())
    assert counted.linear_layers == size.linear_layers

    _, recipe = load_recipe("tiny-cpu", [f"model={{base: {tmp_path}}}", "lora={rank: 8}"])
    with torch.device("meta"):
        adapted = get_peft_model(model, adapter(recipe))
    trained = sum(weight.numel() for weight in adapted.parameters() if weight.requires_grad)
    assert trained == trained_parameters(recipe)[0] == counted.lora_parameters(8, recipe.lora_targets)


def test_types_without_a_formula_are_counted(tmp_path: Path) -> None:
    from transformers import AutoConfig

    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 99}
    config = AutoConfig.for_model(
        "phi3", **sizes, intermediate_size=96, num_key_value_heads=4, pad_token_id=0
    )
    config.save_pretrained(tmp_path)
    overrides = ["--set", f"model={{base: {tmp_path}}}", "--set", "lora={rank: 4}"]
    overrides += ["--set", "training.optimizer=adamw"]
    plan = _plan("tiny-cpu", *overrides)
    layer = 64 * 3 * 64 + 64 * 64 + 64 * 2 * 96 + 96 * 64 + 2 * 64
    assert plan["total"] == 2 * layer + 2 * 99 * 64 + 64
    assert plan["trained"] == 2 * 4 * (64 + 3 * 64 + 64 + 64 + 64 + 2 * 96 + 96 + 64)
    # of a multimodal model all parts are loaded, and only the text part's layers are counted as layers
    text = {**SMALL, "num_hidden_layers": 3}
    vision = {
        **{"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2},
        **{"image_size": 28, "patch_size": 14},
    }
    count_of = count(AutoConfig.for_model("gemma3", text_config=text, vision_config=vision), "both")
    assert count_of.num_hidden_layers == 3
    assert count_of.parameters()["outside"] > 0


def test_a_plan_for_learning_from_reward_has_the_engine() -> None:
    plan = _plan("tiny-cpu-grpo")
    found = plan["learning"]
    assert found["reference"] == found["weights"] == 4 * plan["total"]
    assert (
        found["cache"] == 16 * 1024 * 2 * 3 * 2 * 64 * 4
    )  # requests, tokens, both, layers, heads, sizes, bytes
    half = _plan("tiny-cpu-grpo", "--set", "rl.row_tokens=1024")["learning"]
    assert [2 * half[part] for part in ("activations", "logits")] == [found["activations"], found["logits"]]
    assert _plan("tiny-cpu")["learning"] is None
    assert found["engine"] == 0
    eight = _plan("qwen3.5-9b-grpo-8gpu")["learning"]
    assert eight["engine"] == 8 * eight["weights"] // 2, "all weights, in 16 bits instead of 32"
    assert sum(eight.values()) < 0.9 * 79 * 2**30
    apart = _plan("qwen3.5-9b-grpo-8gpu", "--set", "rl.engine={kind: vllm, devices: [8]}")["learning"]
    assert (apart["engine"], apart["cache"]) == (0, 0)
    assert "train rl    about" in CliRunner().invoke(train, ["plan", "tiny-cpu-grpo"]).stdout
    assert plan["launch"] == "mcp-bench train rl tiny-cpu-grpo --start MODEL --tasks ids.txt"


def test_a_plan_starts_without_torch(tmp_path: Path) -> None:
    sizes = {"model_type": "llama", "tie_word_embeddings": True, "max_position_embeddings": 2048}
    (tmp_path / "config.json").write_text(json.dumps({**SMALL, **sizes}))
    code = (
        "import sys; from click.testing import CliRunner; from mcp_bench.trainer.cli.train import train;"
        "assert CliRunner().invoke(train, ['plan', 'tiny-cpu']).exit_code == 0;"
        "assert CliRunner().invoke(train, ['plan', 'tiny-cpu-grpo']).exit_code == 0;"
        f"of = ['--set', 'model={{base: {tmp_path}}}'];"
        "assert CliRunner().invoke(train, ['plan', 'tiny-cpu', *of]).exit_code == 0;"
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
