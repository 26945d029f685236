"""Training of all supported architectures, in full and with adapters."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_bench.trainer.cli.train import train
from mcp_bench.trainer.memory import device_memory
from mcp_bench.trainer.recipe import load_recipe
from mcp_bench.trainer.serving.adapter import merge_adapter
from mcp_bench.trainer.sft.guards import WINDOW, DivergedError, LossGuard
from mcp_bench.trainer.sft.muon import MuonAdamW
from mcp_bench.trainer.sft.run_folder import RunFolder
from mcp_bench.trainer.sft.train import make_ready, make_trainer
from mcp_bench.trainer.sft.trainer_inputs import ROWS, RightPadding, SimilarLengths
from tests.support.training import tiny_checkpoints
from tests.support.training.short_training import curve, rows, save_tokenizer, write_rows
from tests.support.training.short_training import settings as overrides
from tests.support.training.tiny_checkpoints import template

pytestmark = pytest.mark.component

LINEAR = {
    "model__architecture__model_type": "qwen3_5_text",
    "model__architecture__num_hidden_layers": 4,
    "model__architecture__linear_num_key_heads": 2,
    "model__architecture__linear_num_value_heads": 2,
    "model__architecture__linear_key_head_dim": 32,
    "model__architecture__linear_value_head_dim": 32,
}


def run(out: Path, data: Path, tokenizer: Path, **changed: object) -> list[float]:
    arguments = [
        "sft",
        "tiny-cpu",
        "--data",
        data,
        "--tokenizer",
        tokenizer,
        "--out",
        out,
        *overrides(**changed),
    ]
    result = CliRunner().invoke(train, [str(word) for word in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return [loss for _, loss, _ in curve(out)]


def test_qwen3_qwen3_5_and_an_adapter_learn(tmp_path: Path) -> None:
    data = write_rows(tmp_path / "train.jsonl", rows(8))
    bases: dict[str, Path] = {}
    for family, named, sizes in (("qwen3", "qwen3", {}), ("qwen3_5", "qwen3_5_nothink_training", LINEAR)):
        tokenizer = save_tokenizer(tmp_path / family, template(named))
        out = tmp_path / f"{family}-run"
        losses = run(out, data, tokenizer, training__epochs=3, data__max_length=2048, **sizes)
        assert losses[-1] < losses[0] - 0.5, family
        assert_checkpoints_can_be_served(out)
        bases[family] = out / "model"
    losses = run(
        tmp_path / "adapter", data, bases["qwen3"], training__epochs=8, training__learning_rate=0.01,
        model__base=str(bases["qwen3"]), lora__rank=8, lora__alpha=16, data__max_length=2048,
        lora__targets=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
    )  # fmt: skip
    assert losses[-1] < losses[0] - 0.05
    adapter = json.loads((tmp_path / "adapter" / "model" / "adapter_config.json").read_text())
    assert adapter["base_model_name_or_path"] == str(bases["qwen3"])
    assert_checkpoints_can_be_served(tmp_path / "adapter")


def assert_checkpoints_can_be_served(run: Path) -> None:
    """Check that checkpoints have the template and generation settings of the result, not the base's."""
    for name in ("chat_template.jinja", "generation_config.json"):
        served = (run / "model" / name).read_text()
        found = [path.read_text() for path in run.glob(f"checkpoints/*/{name}")]
        assert found and {served} == set(found), name
    assert (
        "{% generation %}" in (run / "model" / "chat_template.jinja").read_text()
    )  # Qwen3's stock template has no such mark


@pytest.mark.parametrize("precision", ["fp32", "bf16-mixed", "bf16"])
def test_frozen_weights_take_the_planned_memory(tmp_path: Path, precision: str) -> None:
    data = write_rows(tmp_path / "train.jsonl", rows(4))
    run(tmp_path / "run", data, save_tokenizer(tmp_path / "tokenizer"))
    changed = overrides(
        model__base=str(tmp_path / "run" / "model"), training__precision=precision,
        lora__rank=8, lora__alpha=16, lora__targets=["q_proj", "down_proj"],
    )  # fmt: skip
    _, recipe = load_recipe("tiny-cpu", changed[1::2])
    ready = make_ready(recipe, str(recipe.model.base), [data])
    model = make_trainer(RunFolder(tmp_path / "adapter"), ready, 4, 1, (), lambda *_: None).model
    assert sum(p.numel() * p.element_size() for p in model.parameters()) == device_memory(recipe)["weights"]


def test_a_32_bit_adapter_merges_into_16_bit_weights(tmp_path: Path) -> None:
    import torch
    from safetensors.torch import load_file

    data = write_rows(tmp_path / "train.jsonl", rows(4))
    run(tmp_path / "run", data, save_tokenizer(tmp_path / "tokenizer"), training__precision="bf16")
    run(
        tmp_path / "adapter", data, tmp_path / "run" / "model", training__precision="bf16-mixed",
        model__base=str(tmp_path / "run" / "model"),
        lora__rank=8, lora__alpha=16, lora__targets=["q_proj", "down_proj"],
    )  # fmt: skip
    adapter = load_file(tmp_path / "adapter" / "model" / "adapter_model.safetensors")
    assert {weight.dtype for weight in adapter.values()} == {torch.float32}
    merged = load_file(merge_adapter(tmp_path / "adapter" / "model") / "model.safetensors")
    assert {weight.dtype for weight in merged.values()} == {torch.bfloat16}


@pytest.mark.parametrize(
    ("generation", "saved"),
    [
        ({"temperature": 0}, (False, None, None)),
        ({"temperature": 0.7, "top_p": 0.9}, (True, 0.7, 0.9)),
    ],
)
def test_the_recipe_overrides_generation_settings(
    tmp_path: Path, generation: dict[str, float], saved: tuple[object, ...]
) -> None:
    data = write_rows(tmp_path / "train.jsonl", rows(4))
    run(tmp_path / "run", data, save_tokenizer(tmp_path / "tokenizer"))
    base = tmp_path / "run" / "model"
    settings = json.loads((base / "generation_config.json").read_text())
    sampling = {"do_sample": True, "temperature": 0.6, "top_p": 0.95, "top_k": 20}
    (base / "generation_config.json").write_text(json.dumps(settings | sampling))
    run(tmp_path / "tuned", data, base, model__base=str(base), training__save_every=1, generation=generation)
    settings = json.loads((tmp_path / "tuned" / "model" / "generation_config.json").read_text())
    assert tuple(settings.get(name) for name in ("do_sample", "temperature", "top_p")) == saved


def test_muon_with_grouping_by_length_learns(tmp_path: Path) -> None:
    data = write_rows(tmp_path / "train.jsonl", rows())
    tokenizer = save_tokenizer(tmp_path / "tokenizer")
    losses = run(
        tmp_path / "run", data, tokenizer, training__optimizer="muon", data__group_by_length=True,
        training__epochs=4, training__precision="fp32",
    )  # fmt: skip
    assert losses[-1] < losses[0] - 1


def test_muon_trains_the_matrices_of_layers_only() -> None:
    """The embeddings of GPT-2 are `wte` and `wpe`: their names do not say what they are."""
    from transformers import AutoConfig, AutoModelForCausalLM

    sizes = {"n_embd": 16, "n_layer": 1, "n_head": 2, "vocab_size": 32, "n_positions": 32}
    config = AutoConfig.for_model("gpt2", **sizes, bos_token_id=0, eos_token_id=0)
    model: Any = AutoModelForCausalLM.from_config(config)
    names = {id(weight): name for name, weight in model.named_parameters()}
    hidden, rest = (
        {names[id(weight)] for weight in group["params"]}
        for group in MuonAdamW(model, lr=1e-3, muon_lr=0.02).param_groups
    )
    assert hidden == {
        f"transformer.h.0.{name}.weight" for name in ("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj")
    }
    assert {"transformer.wte.weight", "transformer.wpe.weight"} < rest
    assert hidden | rest == set(names.values())


@pytest.mark.parametrize("family", ["qwen3", "qwen3_5"])
def test_right_padding_without_a_mask_changes_no_logits(family: str) -> None:
    import torch

    torch.manual_seed(0)
    model: Any = getattr(tiny_checkpoints, family)(64).eval()
    lengths = (5, 12, 9)
    examples = [
        {"input_ids": ids, "labels": [-100, *ids[1:]], ROWS: number}
        for number, ids in enumerate(torch.randint(1, 64, (length,)).tolist() for length in lengths)
    ]
    batch = RightPadding(pad=0, multiple=8)(examples)
    assert batch["input_ids"].shape == (3, 16)
    assert batch.pop(ROWS).tolist() == [0, 1, 2]
    with torch.no_grad():
        together = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
        for number, example in enumerate(examples):
            alone = model(input_ids=torch.tensor([example["input_ids"]])).logits[0]
            assert torch.allclose(together[number, : lengths[number]], alone, atol=1e-4)
    assert (batch["labels"] == -100).sum() == sum(16 - length + 1 for length in lengths)


def test_the_guard_ignores_noise_and_stops_divergence() -> None:
    guard = LossGuard(["a:1", "a:2"])
    for step in range(100):
        guard.check_step(step, 2.0 - step / 100 + (step % 7) / 5, 1.0, [0])
    with pytest.raises(DivergedError, match=r"exploded: .* up from .*; the last batch was a:2"):
        for step in range(WINDOW):
            guard.check_step(100 + step, 9.0, 1.0, [1])
    with pytest.raises(DivergedError, match="norm is inf in step 7, on a:1, a:2"):
        LossGuard(["a:1", "a:2"]).check_step(7, 1.0, float("inf"), [0, 1])
    with pytest.raises(DivergedError, match="of another process"):
        LossGuard([]).check_batch(1.0, [], elsewhere=True)


@settings(deadline=None)
@given(st.lists(st.integers(1, 99), max_size=60), st.integers(1, 9), st.integers(0, 3))
def test_rows_of_similar_length_share_a_step(lengths: list[int], step: int, epoch: int) -> None:
    order = SimilarLengths(lengths, step, seed=5)
    order.set_epoch(epoch)
    rows = list(order)
    assert sorted(rows) == list(range(len(lengths)))
    assert list(order) == rows
    again = SimilarLengths(lengths, step, seed=5)
    again.set_epoch(epoch)
    assert list(again) == rows
    if len(lengths) <= step * 8:  # all rows are sorted together, so steps do not overlap
        full = [sorted(lengths[row] for row in rows[at : at + step]) for at in range(0, len(rows), step)]
        ends = sorted((one[0], one[-1]) for one in full)
        assert all(one[1] <= other[0] for one, other in pairwise(ends))
