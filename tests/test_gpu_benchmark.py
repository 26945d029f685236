"""`benchmarks/gpu.py` with tiny sizes, on a CPU: every stage ends with a figure, and a second call does nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT

pytestmark = [pytest.mark.system, pytest.mark.full]

SCRIPT = ROOT / "benchmarks" / "gpu.py"


def gpu(*arguments: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if name != "MCP_BENCH_HOME"}
    command = [sys.executable, str(SCRIPT), *arguments]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=True)


def test_every_stage_runs_once_with_tiny_sizes(tmp_path: Path) -> None:
    out = tmp_path / "gpu"
    tiny = (str(out), "--tiny", "--device", "cpu")
    first = gpu(*tiny)
    stages = json.loads((out / "state.json").read_text())
    assert {stage: found["status"] for stage, found in stages.items()} == dict.fromkeys(stages, "done"), (
        stages
    )
    assert set(stages) >= {"machine", "before", "train", "after", "1b-16k", "1b-64k"}
    assert "strict of" in stages["after"]["figures"]["dev level 1"]
    assert "CPU, " in first.stdout
    second = gpu(*tiny)
    assert second.stdout == first.stdout
    assert "..." not in second.stderr

    assert "grpo" not in stages
    named = ("--stage", "grpo", "--stage", "grpo-after")
    learned = gpu(*tiny, *named)
    stages = json.loads((out / "state.json").read_text())
    assert stages["grpo"]["status"] == stages["grpo-after"]["status"] == "done", stages
    figures = stages["grpo"]["figures"]
    assert figures["steps"].startswith("2 (") and figures["rollouts"].endswith("% of the time")
    assert "strict of" in stages["grpo-after"]["figures"]["dev level 1"]
    assert "| grpo | " in learned.stdout


def test_a_stage_without_its_input_is_not_run(tmp_path: Path) -> None:
    found = gpu(str(tmp_path), "--device", "cpu", "--stage", "base", "--stage", "after")
    assert "| base | " in found.stdout
    assert "not run: --base is not given" in found.stdout
    assert "not run: train has no result" in found.stdout


def test_a_file_is_split_and_joined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    import gpu as script  # type: ignore[import-not-found, unused-ignore]

    monkeypatch.setattr(script, "PART", 1000)
    file = tmp_path / "model.gguf"
    content = os.urandom(11_234)
    file.write_bytes(content)
    parts = script.split(file)
    assert [part.stat().st_size for part in parts] == [1000] * 11 + [234]
    file.unlink()
    assert script.join(file).read_bytes() == content
    for path in [file, *parts]:
        path.unlink()
    with pytest.raises(FileNotFoundError):
        script.join(file)
