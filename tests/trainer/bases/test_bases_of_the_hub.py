"""`train base org/model` with the real client of the Hub, against a local stand-in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.bench_commands import Bench
from tests.support.http.model_hub import COMMIT, model_hub

pytestmark = pytest.mark.system


class RealBench(Bench):
    """Every command is a process of its own: the Hub's client reads its settings when it is imported."""

    forked = False


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    for name in ("config.json", "model.safetensors", "tokenizer.json", "LICENSE", "pytorch_model.bin"):
        (folder / name).write_text(f"content of {name}")
    return folder


@pytest.mark.full
def test_a_model_is_fetched_at_its_commit(model: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    with model_hub(model) as url:
        settings = {"HF_ENDPOINT": url, "MCP_BENCH_CACHE": str(cache), "HF_HUB_DISABLE_XET": "1"}
        bench = RealBench(tmp_path / "home", settings)
        row = json.loads(bench.run("train", "base", "org/model", "--revision", "v1", "--json").stdout)
        missing = bench.run("train", "base", "org/other", code=2).stderr
        gated = bench.run("train", "base", "org/gated", code=2).stderr
    assert (row["revision"], row["licence"]) == (COMMIT, "apache-2.0")
    assert row["path"] == str(cache / "bases" / "org--model")
    files = {"config.json", "model.safetensors", "tokenizer.json", "LICENSE", "origin.json"}
    assert {path.name for path in Path(row["path"]).iterdir()} == files  # no weights in a second form
    assert "org/other, and no such model on the Hub" in missing
    assert "org/gated is gated" in gated
    again = bench.run("train", "base", "org/model", "--revision", "v1")  # without the Hub
    assert again.stdout == f"{row['path']}\n"
    assert sorted(path.name for path in (cache / "bases").iterdir() if path.suffix != ".lock") == [
        "org--model"
    ]
