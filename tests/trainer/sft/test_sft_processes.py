"""Several processes train like one: the same batches, losses and model. (FSDP2 needs GPUs.)"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from mcp_bench.trainer.launch import launch_line
from mcp_bench.trainer.recipe import load_recipe
from tests.support.training.short_training import curve, rows, save_tokenizer, settings, write_rows

pytestmark = pytest.mark.component

BATCH = 4


def train(folder: Path, devices: int) -> tuple[list[float], list[int]]:
    """Train with `BATCH` rows per step, using the command of the plan; return losses and tokens of the steps."""
    folder.mkdir()
    tokenizer, data = save_tokenizer(folder / "tokenizer"), write_rows(folder / "rows.jsonl", rows())
    words = settings(
        training__sequences_per_device=BATCH // devices,
        hardware__devices=devices,
        model__tokenizer=str(tokenizer),
    )
    overrides = [word for word in words if word != "--set"]
    argv = shlex.split(launch_line(load_recipe("tiny-cpu", overrides)[1], "tiny-cpu", overrides, [str(data)]))
    run = folder / "tiny-cpu-run"
    if devices == 1:
        argv += ["--out", str(run)]
    environ = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(argv, cwd=folder, env=environ, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert (run / "model" / "model.safetensors").is_file()
    lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [loss for _, loss, _ in curve(run)], [json.loads(line)["tokens"] for line in lines]


@pytest.mark.full
def test_two_processes_learn_the_same_as_one(tmp_path: Path) -> None:
    alone, tokens = train(tmp_path / "alone", 1)
    assert len(alone) == len(rows()) // BATCH
    together, counted = train(tmp_path / "together", 2)
    assert together == pytest.approx(alone, abs=1e-3)
    assert sum(counted) == pytest.approx(sum(tokens), rel=0.02)  # those of all processes, with padding
