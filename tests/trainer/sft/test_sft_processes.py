"""Several processes train like one: the same batches, losses and model. (FSDP2 needs GPUs.)"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from accelerate import PartialState
from accelerate.data_loader import prepare_data_loader, skip_first_batches
from torch.utils.data import DataLoader
from transformers import Trainer

from mcp_bench.trainer.launch import launch_line
from mcp_bench.trainer.recipe import load_recipe
from mcp_bench.trainer.sft.guarded import Guarded
from mcp_bench.trainer.sft.trainer_inputs import SimilarLengths
from tests.support.training.short_training import curve, rows, save_tokenizer, settings, write_rows

pytestmark = pytest.mark.component

BATCH = 4
FAILS = """
import signal
from torch import distributed
from mcp_bench.trainer.sft import processes

distributed.init_process_group("gloo")
if processes.rank() == 1:
    processes.fail()
    signal.pause()
with processes.ending_with_others():
    distributed.barrier()
"""


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


def test_a_resumed_epoch_has_its_own_order_in_each_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The order is that of the second epoch, also where its first batch is skipped."""
    order = SimilarLengths([1] * 12, BATCH, seed=0)

    def made(trainer: Trainer) -> Any:
        loader: Any = DataLoader(list(range(12)), batch_size=2, sampler=order)  # type: ignore[arg-type]
        return prepare_data_loader(loader, num_processes=2, process_index=1, put_on_device=False)

    monkeypatch.setattr(Trainer, "get_train_dataloader", made)
    PartialState()
    trainer = Guarded.__new__(Guarded)
    trainer._order = order
    loader = trainer.get_train_dataloader()
    loader.set_epoch(1)
    whole = [batch.tolist() for batch in loader]
    order.set_epoch(0)
    rest = skip_first_batches(trainer.get_train_dataloader(), 1)
    rest.set_epoch(1)
    assert [batch.tolist() for batch in rest] == whole[1:]


def test_no_process_waits_for_one_that_has_failed(tmp_path: Path) -> None:
    """The failed one is still there, so its connections are open: as with NCCL, nothing else ends the wait."""
    script = tmp_path / "trial.py"
    script.write_text(FAILS, encoding="utf-8")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    ended = subprocess.run([*torchrun, str(script)], capture_output=True, text=True, timeout=240)
    assert ended.returncode == 1
    assert "Another process has failed: this one ends, too" in ended.stderr


@pytest.mark.full
def test_two_processes_learn_the_same_as_one(tmp_path: Path) -> None:
    alone, tokens = train(tmp_path / "alone", 1)
    assert len(alone) == len(rows()) // BATCH
    together, counted = train(tmp_path / "together", 2)
    assert together == pytest.approx(alone, abs=1e-3)
    assert sum(counted) == pytest.approx(sum(tokens), rel=0.02)  # those of all processes, with padding
