"""gpt-oss is published with experts in MXFP4: four bits for each weight, and a scale for each 32 of them
(https://www.opencompute.org/documents/ocp-microscaling-formats-mx-v1-0-spec-final-pdf). The tests make such a
checkpoint from random numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file

from mcp_bench.trainer.cli.train import train
from mcp_bench.trainer.engine.load import load
from mcp_bench.trainer.serving.adapter import merge_adapter
from tests.support.training.short_training import rows, write_rows
from tests.support.training.tiny_models import tiny_model
from tests.trainer.sft.test_model_types import recipe

pytestmark = pytest.mark.component

E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], dtype=np.float32)
BIAS = 127


def decoded(blocks: NDArray[np.uint8], scales: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return the numbers of blocks of shape (experts, out, groups, 16), as (experts, groups x 32, out)."""
    pairs = np.stack([E2M1[blocks & 15], E2M1[blocks >> 4]], axis=-1)  # the low half of a byte comes first
    values = pairs.reshape(*blocks.shape[:3], 32) * np.exp2(scales.astype(np.float32) - BIAS)[..., None]
    return values.reshape(*blocks.shape[:2], -1).swapaxes(1, 2)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, torch.Tensor]]:
    """Return a folder with experts in MXFP4, and their weights."""
    folder = tiny_model(tmp_path_factory.mktemp("mxfp4") / "base", "gpt_oss")
    weights = load_file(folder / "model.safetensors")
    draw = np.random.default_rng(0)
    expected = {}
    for name in [name for name in weights if name.endswith(("experts.gate_up_proj", "experts.down_proj"))]:
        experts, inputs, outputs = weights.pop(name).shape
        blocks = draw.integers(0, 256, (experts, outputs, inputs // 32, 16), dtype=np.uint8)
        scales = draw.integers(BIAS - 6, BIAS - 2, blocks.shape[:3], dtype=np.uint8)
        weights[f"{name}_blocks"], weights[f"{name}_scales"] = map(torch.from_numpy, (blocks, scales))
        expected[name] = torch.from_numpy(decoded(blocks, scales).copy())
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}
    (folder / "config.json").write_text(json.dumps(config))
    return folder, expected


def same(found: dict[str, Any], expected: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(found[name].float(), wanted) for name, wanted in expected.items())


def trained(base: Path, folder: Path, **changed: Any) -> Path:
    """Train on such a base, and return the folder of the result."""
    data = write_rows(folder / "train.jsonl", rows(4))
    arguments = ["sft", recipe(folder, base, **changed), "--data", data, "--out", folder / "out"]
    result = CliRunner().invoke(train, [str(one) for one in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return folder / "out" / "model"


def test_an_adapter_on_such_a_base_is_merged(
    tmp_path: Path, base: tuple[Path, dict[str, torch.Tensor]]
) -> None:
    folder, expected = base
    merged = merge_adapter(trained(folder, tmp_path, lora={"rank": 2, "alpha": 4, "targets": ["q_proj"]}))
    assert "quantization_config" not in json.loads((merged / "config.json").read_text())
    assert same(load_file(merged / "model.safetensors"), expected)


def test_all_weights_of_such_a_base_are_trained(
    tmp_path: Path, base: tuple[Path, dict[str, torch.Tensor]]
) -> None:
    folder, expected = base
    made = load_file(trained(folder, tmp_path) / "model.safetensors")
    assert not [name for name in made if name.endswith(("_blocks", "_scales"))]
    for name, before in expected.items():
        moved = (made[name].float() - before).abs()
        assert 0 < moved.max() < 0.05  # two steps at a rate of 0.003


def test_the_engine_serves_such_a_base(base: tuple[Path, dict[str, torch.Tensor]]) -> None:
    folder, expected = base
    loaded = load(folder, calls="openai", device="cpu", dtype="float32")
    assert same(loaded.model.state_dict(), expected)
