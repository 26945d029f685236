"""Models of each type, with random weights: from the base's folder to a plan, training, and a saved model."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from mcp_bench.trainer.cli.train import train
from mcp_bench.trainer.recipe import load_recipe
from mcp_bench.trainer.serving.adapter import merge_adapter
from mcp_bench.trainer.sft.run_folder import RunFolder
from mcp_bench.trainer.sft.train import make_ready, make_trainer
from mcp_bench.trainer.sft.trainer_inputs import ROWS
from tests.support.training.short_training import curve, rows, write_rows
from tests.support.training.tiny_models import FAMILIES, family_tokenizer, tiny_model

pytestmark = pytest.mark.component

QUICK = ("llama", "gpt_oss")
TYPES = [pytest.param(kind, marks=() if kind in QUICK else pytest.mark.full, id=kind) for kind in FAMILIES]
ENDS = {
    "llama": "<|eot_id|>", "gemma3_text": "<end_of_turn>", "qwen3": "<|im_end|>", "mistral": "</s>",
    "qwen3_5_text": "<|im_end|>", "gpt_oss": "<|call|>", "glm4_moe": "<|observation|>",
}  # fmt: skip


def recipe(folder: Path, base: Path, **changed: Any) -> Path:
    """Write a recipe that names a base, and no sizes."""
    content = {
        "summary": "a base",
        "model": {"base": str(base)},
        "data": {"max_length": 8192},
        "training": {
            "learning_rate": 0.003, "precision": "fp32", "attention": "eager", "checkpointing": "off",
            "sequences_per_device": 2, "warmup_ratio": 0.0, **changed.pop("training", {}),
        },
        "hardware": {"device": "cpu", "memory_gib": 16},
        **changed,
    }  # fmt: skip
    file = folder / "recipe.yaml"
    file.write_text(yaml.safe_dump(content))
    return file


def call(*arguments: object) -> Any:
    result = CliRunner().invoke(train, [str(one) for one in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.mark.parametrize("kind", TYPES)
def test_a_base_is_planned_trained_and_saved(tmp_path: Path, kind: str) -> None:
    from safetensors.torch import load_file
    from transformers import AutoModelForCausalLM, AutoTokenizer

    base = tiny_model(tmp_path / "base", kind)
    data = write_rows(tmp_path / "train.jsonl", rows(4))
    file = recipe(tmp_path, base)
    plan = call("plan", file, "--data", data, "--tokenizer", base, "--json")
    before = load_file(base / "model.safetensors")
    buffers = [name for name in before if name.endswith("correction_bias")]  # GLM's, which is no parameter
    assert plan["total"] == sum(before[name].numel() for name in before.keys() - buffers)
    assert plan["refused"] == []
    assert plan["data"]["untrainable"] == []

    call("sft", file, "--data", data, "--out", tmp_path / "full", "--json")
    losses = [loss for _, loss, _ in curve(tmp_path / "full")]
    assert len(losses) == 2
    assert all(map(math.isfinite, losses))
    made = tmp_path / "full" / "model"
    tokenizer = AutoTokenizer.from_pretrained(made)
    stops = json.loads((made / "generation_config.json").read_text())["eos_token_id"]
    assert tokenizer.convert_tokens_to_ids(ENDS[kind]) in stops
    assert "tools" in tokenizer.chat_template
    weights = load_file(made / "model.safetensors")
    assert weights.keys() == before.keys()
    assert any(not weights[name].equal(before[name]) for name in weights)

    file = recipe(tmp_path, base, lora={"rank": 2, "alpha": 4}, training={"learning_rate": 0.05})
    planned = call("plan", file, "--json")["trained"]
    call("sft", file, "--data", data, "--out", tmp_path / "lora", "--json")
    adapter = tmp_path / "lora" / "model"
    trained = load_file(adapter / "adapter_model.safetensors")
    assert sum(weight.numel() for weight in trained.values()) == planned
    frozen, merged = (
        AutoModelForCausalLM.from_pretrained(folder).state_dict() for folder in (base, merge_adapter(adapter))
    )
    for part in ("q_proj", "down_proj"):
        assert any(not merged[name].equal(frozen[name]) for name in merged if part in name), part


def test_padding_does_not_count_in_the_balance_of_experts(tmp_path: Path) -> None:
    base = tiny_model(tmp_path / "base", "gpt_oss")
    config = json.loads((base / "config.json").read_text())
    (base / "config.json").write_text(json.dumps({**config, "router_aux_loss_coef": 10.0}))
    data = write_rows(tmp_path / "train.jsonl", rows(2))
    ready = make_ready(load_recipe(str(recipe(tmp_path, base)))[1], str(base), [data])
    trainer = make_trainer(RunFolder(tmp_path / "run"), ready, 2, 1, (), lambda *_: None)
    found = [trainer.train_dataset[number] for number in range(2)]
    losses = []
    for multiple in (1, 1024):
        batch = replace(trainer.data_collator, multiple=multiple)(found)
        del batch[ROWS]
        losses.append(trainer.compute_loss(trainer.model.eval(), batch).item())
    assert losses[0] > 10  # with the balance
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)


@pytest.mark.parametrize("kind", list(FAMILIES))
def test_training_text_ends_where_servers_stop(kind: str) -> None:
    from mcp_bench.trainer.data import prepare
    from mcp_bench.trainer.recipe import ModelSource
    from mcp_bench.trainer.rows import Row
    from mcp_bench.trainer.sft.model import stop_tokens
    from mcp_bench.trainer.templates import check_templates, choose_templates

    tokenizer = family_tokenizer(kind)
    templates = choose_templates(tokenizer, ModelSource(base="x"))
    [example, *_] = rows(1)
    more = [{"role": "tool", "content": "[]"}, {"role": "assistant", "content": "Nobody."}]
    row = Row("x:1", [*example["messages"], *more], example["tools"])
    check_templates(tokenizer, templates, [row])
    prepared = prepare([row], tokenizer, templates, 8192)
    [made] = prepared.examples
    said = "".join(
        tokenizer.decode([token]) if trained else "\0"
        for token, trained in zip(made.tokens, made.trained, strict=True)
    )
    turns = [turn for turn in said.split("\0") if turn]
    assert len(turns) == 2
    assert "Ada" in turns[0]
    assert "Nobody." in turns[1]
    stops = {tokenizer.decode([token]) for token in stop_tokens(prepared.examples, tokenizer)}
    assert ENDS[kind] in stops
