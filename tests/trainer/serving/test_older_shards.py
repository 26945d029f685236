"""A folder in which weights in one file were saved over older ones in several: the former count everywhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from transformers import AutoModelForCausalLM

from mcp_bench.trainer.gguf.read import read_gguf
from mcp_bench.trainer.gguf.write import write_gguf
from mcp_bench.trainer.inspection.weights import changes
from mcp_bench.trainer.serving.checkpoint import read_checkpoint
from tests.support.training.tiny_llama import tiny_llama_folder

pytestmark = pytest.mark.component


@pytest.mark.parametrize("shards", [True, False], ids=["shards", "index alone"])
def test_the_weights_are_those_that_transformers_loads(shards: bool, tmp_path: Path) -> None:
    folder, back = tiny_llama_folder(tmp_path / "tiny"), tmp_path / "back"
    model = AutoModelForCausalLM.from_pretrained(folder)
    model.model.norm.weight.data += 1
    (folder / "model.safetensors").rename(tmp_path / "kept")
    model.save_pretrained(folder, max_shard_size="100KB")
    (tmp_path / "kept").rename(folder / "model.safetensors")
    for older in [] if shards else list(folder.glob("model-*.safetensors")):
        older.unlink()
    assert not any(AutoModelForCausalLM.from_pretrained(folder).model.norm.weight == 2)
    read_checkpoint(folder)
    write_gguf(folder, tmp_path / "tiny.gguf", "f32")
    back.mkdir()
    read_gguf(tmp_path / "tiny.gguf", back)
    assert not any(change.size for change in changes(back, folder))
    assert not any(AutoModelForCausalLM.from_pretrained(back).model.norm.weight == 2)
