"""A step's command: it ends with us, hears of Ctrl-C once, and what it says is taken for what it is."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mcp_bench.trainer.loop.commands import StepFailedError, record, run

TASK = "simple-contact-details.1.dev.0"
# the step of a loop: it says when it can be interrupted, and how often it was
COUNTS = """
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
with open({fifo!r}, "w") as told:
    print("started", file=told, flush=True)
    signal.sigwait([signal.SIGINT])
    again = signal.sigtimedwait([signal.SIGINT], 1)
    print("once" if again is None else "twice", file=told)
"""
LOOP = """
from mcp_bench.trainer.loop.commands import run
run(["x"], launcher=["-c", {child!r}])
"""


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    return path


def loop_with(child: str) -> subprocess.Popen[str]:
    """Start a process with one step, which a terminal would start in a group of its own."""
    argv = [sys.executable, "-c", LOOP.format(child=child)]
    return subprocess.Popen(argv, stderr=subprocess.PIPE, text=True, start_new_session=True)


def test_one_ctrl_c_is_one_for_the_step(fifo: Path) -> None:
    with loop_with(COUNTS.format(fifo=str(fifo))) as process, fifo.open() as told:
        assert told.readline() == "started\n"
        os.killpg(process.pid, signal.SIGINT)
        assert told.read() == "once\n"
        _, err = process.communicate(timeout=60)
    assert process.returncode != 0 and "KeyboardInterrupt" in err


def test_a_step_ends_with_what_began_it(fifo: Path) -> None:
    with loop_with(COUNTS.format(fifo=str(fifo))) as process, fifo.open() as told:
        assert told.readline() == "started\n"
        process.kill()
        assert told.read() == ""  # its last holder is gone


def test_a_command_that_has_no_document_is_a_failed_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(StepFailedError, match="record failed with exit code 1"):
        run(["record", "--agent", "codex", "--task", TASK, "--json"], wrong=(1,))


def test_another_agents_run_of_the_same_tasks_is_not_gone_on_with(tmp_path: Path) -> None:
    marker = tmp_path / "dev.begun"
    marker.write_text(json.dumps({"before": []}))
    asked = ["--task", TASK, "--jobs", "1"]
    others = run(["record", "--agent", "noop", *asked, "--json"])["run"]
    assert record(marker, ["--agent", "oracle", *asked]) != others
    assert not marker.exists()


def test_ones_own_run_is_gone_on_with(tmp_path: Path) -> None:
    marker = tmp_path / "dev.begun"
    marker.write_text(json.dumps({"before": []}))
    asked = ["--agent", "oracle", "--task", TASK, "--jobs", "1"]
    ours = run(["record", *asked, "--json"])["run"]
    assert record(marker, asked) == ours
