"""`benchmarks/gpu.py` with tiny sizes, on a CPU: every stage ends with a figure, and a second call does nothing."""

from __future__ import annotations

import importlib
import json
import os
import select
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT

pytestmark = pytest.mark.system

SCRIPT = ROOT / "benchmarks" / "gpu.py"


def gpu(*arguments: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if name != "MCP_BENCH_HOME"}
    command = [sys.executable, str(SCRIPT), *arguments]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=True)


@pytest.mark.full
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


@pytest.mark.full
def test_a_stage_without_its_input_is_not_run(tmp_path: Path) -> None:
    found = gpu(str(tmp_path), "--device", "cpu", "--stage", "base", "--stage", "after")
    assert "| base | " in found.stdout
    assert "not run: --base is not given" in found.stdout
    assert "not run: train has no result" in found.stdout


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    return importlib.import_module("gpu")


def test_what_a_stage_has_started_ends_with_its_time(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    (tmp_path / "gpu_stages.py").write_text(
        "import subprocess, sys\n"
        "child = subprocess.Popen(['sleep', '600'])\n"
        f"print(child.pid, file=open({str(fifo)!r}, 'w'), flush=True)\n"
        "child.wait()\n"
    )
    children: list[int] = []

    class Process(subprocess.Popen[bytes]):
        """Its time is over as soon as the stage has started a child."""

        def wait(self, timeout: float | None = None) -> int:
            if timeout is None:
                return super().wait()
            children.append(os.pidfd_open(int(fifo.read_text())))
            raise subprocess.TimeoutExpired(self.args, timeout)

    monkeypatch.setattr(subprocess, "Popen", Process)
    monkeypatch.setattr(script, "__file__", str(tmp_path / "gpu.py"))
    state = script.State(tmp_path)
    script.run_stage("machine", state, 480.0, [], tmp_path)
    assert state.stages["machine"]["status"] == "out of time"
    assert select.select(children, [], [], 60)[0], "the child runs on"
    os.close(children[0])


def test_a_file_is_split_and_joined(script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script, "PART", 1000)
    file = tmp_path / "model.gguf"
    content = os.urandom(11_234)
    file.write_bytes(content)
    parts = script.split(file)
    assert [part.stat().st_size for part in parts] == [1000] * 11 + [234]
    file.write_bytes(content[:2_500])
    parts = script.split(file)
    file.unlink()
    assert script.join(file).read_bytes() == content[:2_500]
    for path in [file, *parts]:
        path.unlink()
    with pytest.raises(FileNotFoundError):
        script.join(file)
