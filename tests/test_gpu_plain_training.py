"""The training loop of `benchmarks/gpu_plain.py`, which is for machines without TRL, with a tiny model on a CPU."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mcp_bench.trainer.engine.load import load
from mcp_bench.trainer.recipe import load_recipe
from tests.support import ROOT
from tests.support.training.byte_tokenizers import CHATML, byte_tokenizer

pytestmark = pytest.mark.component

SIZES = {
    "source": "this test", "model_type": "llama", "vocab_size": 264, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 512,
    "tie_word_embeddings": True,
}  # fmt: skip


@pytest.mark.parametrize("adapted", [False, True])
def test_it_learns_and_its_model_can_be_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, adapted: bool
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    from gpu_plain import train_plainly  # type: ignore[import-not-found, unused-ignore]

    tokenizer, data, run = tmp_path / "tokenizer", tmp_path / "train.jsonl", tmp_path / "run"
    byte_tokenizer(CHATML).save_pretrained(tokenizer)
    asked, answered = {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes."}
    data.write_text(f"{json.dumps({'messages': [asked, answered]})}\n" * 8)
    over = [f"model.architecture={json.dumps(SIZES)}", "training.epochs=5", "training.learning_rate=0.01"]
    over += ["training.sequences_per_device=4", "hardware.device=cpu"]
    over += ["lora.rank=4"] if adapted else []
    train_plainly(load_recipe("tiny-cpu", over)[1], str(tokenizer), [data], run)
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == list(range(1, 11))
    assert lines[-1]["loss"] < lines[0]["loss"]
    assert (run / "model" / "chat_template.jinja").is_file()
    if not adapted:
        assert load(run / "model", calls="hermes", device="cpu").ends
