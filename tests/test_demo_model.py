"""`make demo-model`, shortened: the same commands in the same order, with a tiny base in place of the real one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mcp_bench.servers.saasworld.authoring.family import load_family
from tests.support import ROOT
from tests.support.processes.interrupted import interrupted

pytestmark = [pytest.mark.system, pytest.mark.full]

VENV = Path(sys.executable).parents[1]
TASKS = ("simple-candidate-stage.1.train.0", "simple-contact-details.1.train.0")


def bench(*arguments: str, env: dict[str, str]) -> None:
    subprocess.run([VENV / "bin" / "mcp-bench", *arguments], env=env, check=True, capture_output=True)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a base of 0.6M parameters, hardly trained."""
    folder = tmp_path_factory.mktemp("base")
    env = {**os.environ, "MCP_BENCH_HOME": str(folder / "home")}
    data, made = folder / "rows.jsonl", folder / "base"
    bench("record", "--agent", "oracle", *(word for task in TASKS for word in ("--task", task)), env=env)
    bench("export", "--out", str(data), env=env)
    bench("train", "tiny-base", "--data", str(data), "--out", str(made), "--steps", "2", env=env)
    return made


def test_the_real_demo_goes_on_to_its_table_of_four_cells(tmp_path: Path, base: Path) -> None:
    out = tmp_path / "out"
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "HOME") if name in os.environ}
    short = {
        "QUICK": "1",
        "BASE": str(base),
        "RECIPE": "tiny-cpu",
        "FAMILIES": "2",
        "PRACTICE": "1",
        "LOOP_OPTIONS": "--max-tokens 12 --set data.max_length=2048 --set training.sequences_per_device=1",
    }
    env = {**kept, **short, "VENV": str(VENV), "DEMO_OUT": str(out)}
    demo = ["bash", str(ROOT / "demo-model.sh")]
    assert f"--resume {out}/loop" in interrupted(demo, "$ mcp-bench train sft", cwd=tmp_path, env=env)
    measured = (out / "loop" / "turn-0" / "measure.json").read_text()
    taught = [load_family(task.split(".")[0]).practice for task in (out / "train.txt").read_text().split()]
    assert taught == [False] * 4 + [True] * 2

    done = subprocess.run(demo, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (out / "loop" / "turn-0" / "measure.json").read_text() == measured
    history = json.loads((out / "loop" / "history.json").read_text())
    assert {split: list(history["base"][split]["groups"]) for split in ("dev", "test")} == {
        "dev": ["level 1, trained families", "level 2, trained families"],
        "test": ["level 1, new families", "level 2, new families"],
    }
    assert history["base"]["dev"]["groups"]["level 2, trained families"]["tasks"] == 2
    assert "leak into test of saasworld" in done.stdout
    assert "<svg" in (out / "report.html").read_text()
