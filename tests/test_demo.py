"""`make demo`, shortened: the same commands in the same order, without thresholds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.processes.interrupted import interrupted

pytestmark = pytest.mark.system

SHORT = {
    "TRAINED": "contact-details mail-filing",
    "NEVER_TRAINED": "form-opening",
    "TRAIN": "2",
    "DEV": "1",
    "HARDER": "1",
    "TEST": "1",
    "LOOP_OPTIONS": "--base-steps 3 --set training.epochs=1 --max-tokens 12 --reasoning keep",
}


def test_the_demo_is_stopped_goes_on_and_comes_to_its_table_and_its_page(tmp_path: Path) -> None:
    venv = Path(sys.executable).parents[1]
    out = tmp_path / "out"
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "HOME") if name in os.environ}
    env = {**kept, **SHORT, "VENV": str(venv), "DEMO_OUT": str(out)}
    demo = ["bash", str(ROOT / "demo.sh")]
    assert f"--resume {out}/loop-0" in interrupted(demo, "$ mcp-bench train sft", cwd=tmp_path, env=env)
    taught = (out / "loop-0" / "turn-1" / "teach.json").read_text()

    done = subprocess.run(demo, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (out / "loop-0" / "turn-1" / "teach.json").read_text() == taught
    history = json.loads((out / "loop-0" / "history.json").read_text())
    assert {split: list(history["best"][split]["groups"]) for split in ("dev", "test")} == {
        "dev": ["level 1, trained families", "level 2, trained families"],
        "test": ["level 1, new families"],
    }
    assert Path(history["turns"][0]["train"]["model"], "model.safetensors").is_file()
    manifest = json.loads((out / "loop-0" / "turn-1" / "train.jsonl.manifest.json").read_text())
    assert manifest["selection"]["reasoning"] == "keep"
    assert "level 2, trained families" in done.stdout
    assert "0 of 4 rows leak into test of saasworld" in done.stdout
    assert "<svg" in (out / "report.html").read_text()
