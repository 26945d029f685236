"""Adapters that are merged by several commands, or by one that was killed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from mcp_bench.servers.errors import BenchError
from mcp_bench.trainer.bases.places import folder_of, write_origin
from mcp_bench.trainer.serving import adapter
from mcp_bench.trainer.serving.adapter import merge_adapter
from tests.support.full_disk import full_disk
from tests.support.training.tiny_llama import tiny_llama_folder

pytestmark = pytest.mark.component


@pytest.fixture
def tuned(tmp_path: Path) -> Path:
    """Return the folder of an adapter."""
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    base = AutoModelForCausalLM.from_pretrained(tiny_llama_folder(tmp_path / "base"))
    get_peft_model(base, LoraConfig(r=2, target_modules=["q_proj"])).save_pretrained(tmp_path / "adapter")
    return tmp_path / "adapter"


def test_what_one_command_merged_another_one_uses(tuned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one may be loading it already."""
    load = adapter.load_weights
    began, found = list[Thread](), list[Path]()

    def loading(*args: Any, **named: Any) -> Any:
        if not began:  # the second command begins while the first one is at work
            began.append(Thread(target=lambda: found.append(merge_adapter(tuned))))
            began[0].start()
        else:
            found.append(Path("merged again"))
        return load(*args, **named)

    monkeypatch.setattr(adapter, "load_weights", loading)
    merged = merge_adapter(tuned)
    began[0].join(300)
    assert found == [merged] and (merged / "model.safetensors").is_file()


def test_the_base_may_be_a_fetched_one(tuned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """peft names the base of an adapter as the Hub does."""
    monkeypatch.setenv("MCP_BENCH_CACHE", str(tuned.parent / "cache"))
    fetched = folder_of("org/tiny")
    fetched.parent.mkdir(parents=True)
    (tuned.parent / "base").rename(fetched)
    write_origin(fetched, {"name": "org/tiny"})
    config = json.loads((tuned / "adapter_config.json").read_bytes())
    (tuned / "adapter_config.json").write_text(json.dumps({**config, "base_model_name_or_path": "org/tiny"}))
    assert (merge_adapter(tuned) / "model.safetensors").is_file()


def test_a_full_disk_is_named_and_leaves_nothing(tuned: Path) -> None:
    with full_disk(20_000), pytest.raises(BenchError, match="cannot write the merged model"):
        merge_adapter(tuned)
    assert not [path for path in tuned.iterdir() if path.is_dir()]
    assert merge_adapter(tuned).is_dir()


def test_what_a_killed_merge_left_is_deleted(tuned: Path) -> None:
    (tuned / ".merged-abc").mkdir()
    (tuned / ".merged-abc" / "model.safetensors").write_bytes(b"half")
    merged = merge_adapter(tuned)
    assert [path.name for path in tuned.iterdir() if path.name.startswith(".merged")] == []
    shutil.rmtree(merged)
    assert merge_adapter(tuned) == merged
