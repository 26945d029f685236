"""One process records run after run, each as `mcp-bench record` would."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcp_bench.bridge.cli import recorder as recorder_process
from mcp_bench.recorder.paths import runs_dir
from mcp_bench.recorder.runs.reader import RunReader
from mcp_bench.trainer.trial.commands import StepFailedError
from mcp_bench.trainer.trial.recorder import Recorder
from mcp_bench.trainer.trial.recordings import record

pytestmark = pytest.mark.system

TASK, OTHER = (f"simple-contact-details.1.train.{number}" for number in range(2))
ASKED = ("--agent", "oracle", "--jobs", "1")
# records with a stand-in that reports when it can be interrupted, and how many interrupts it got
INTERRUPTED = """
from pathlib import Path
from mcp_bench.trainer.trial import recorder
recorder.MODULE = "stand_in"
with recorder.Recorder() as one:
    one.run(["record"], log=Path({log!r}))
"""
STAND_IN = """
import os, signal, socket
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
orders = socket.socket(fileno=0)
orders.makefile("rb").readline()
with open(os.environ["FIFO"], "w") as output:
    print("started", file=output, flush=True)
    signal.sigwait([signal.SIGINT])
    print("once" if signal.sigtimedwait([signal.SIGINT], 1) is None else "twice", file=output)
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "record.log"


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorder]:
    monkeypatch.setenv("MCP_BENCH_ISOLATION", "none")
    with Recorder() as one:
        yield one


def children(pid: int) -> list[str]:
    """Return the command lines of all processes below a process."""
    listed = subprocess.run(["ps", "-ww", "-o", "args=", "--ppid", str(pid)], capture_output=True, text=True)
    return listed.stdout.splitlines()


def test_runs_share_a_process_and_its_fork_server(
    recorder: Recorder, tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, pids = [], set()
    for number, task in enumerate((TASK, OTHER)):
        monkeypatch.setenv("MCP_BENCH_HOME", str(tmp_path / f"home-{number}"))  # each order has its own
        made.append(record(tmp_path / "begun", [*ASKED, "--task", task], log, run_command=recorder.run))
        with RunReader(runs_dir() / made[-1]) as reader:
            (episode,) = reader.episodes()
        assert (episode.task, episode.strict) == (task, True)
        assert recorder._process is not None
        pids.add(recorder._process.pid)
        servers = [one for one in children(recorder._process.pid) if "fork_server.py" in one]
        assert len(servers) == 1
    assert len(set(made)) == 2 and len(pids) == 1
    assert all(run in log.read_text() for run in made)


def test_a_failed_run_does_not_end_the_process(recorder: Recorder, tmp_path: Path, log: Path) -> None:
    with pytest.raises(StepFailedError, match=f"record failed with exit code 2: see {log}"):
        recorder.run(["record", "--agent", "nobody", "--task", TASK, "--json"], log=log)
    assert "nobody" in log.read_text()
    assert record(tmp_path / "begun", [*ASKED, "--task", TASK], log, run_command=recorder.run)


def test_a_closed_one_records_nothing(log: Path) -> None:
    with Recorder() as closed:
        pass
    with pytest.raises(StepFailedError, match="nothing is recorded any more"):
        closed.run(["record", "--json"], log=log)


def test_a_crash_is_in_the_log_of_its_run(monkeypatch: pytest.MonkeyPatch, log: Path) -> None:
    def crash(arguments: list[str]) -> None:
        raise RuntimeError("the disk is full")

    monkeypatch.setattr(recorder_process, "run_command", crash)
    with pytest.raises(RuntimeError):
        recorder_process.obey({"env": dict(os.environ), "arguments": [], "log": str(log)})
    assert "RuntimeError: the disk is full" in log.read_text()


def test_a_process_that_died_is_noticed(recorder: Recorder, tmp_path: Path, log: Path) -> None:
    asked = [*ASKED, "--task", TASK]
    record(tmp_path / "begun", asked, log, run_command=recorder.run)
    assert recorder._process is not None
    os.kill(recorder._process.pid, signal.SIGKILL)
    with pytest.raises(StepFailedError, match="the process that records has ended"):
        record(tmp_path / "begun", asked, log, run_command=recorder.run)
    assert record(tmp_path / "begun", asked, log, run_command=recorder.run)  # by a new one


@pytest.fixture
def interrupted(tmp_path: Path, log: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    (tmp_path / "stand_in.py").write_text(STAND_IN)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "FIFO": str(fifo)}
    argv = [sys.executable, "-c", INTERRUPTED.format(log=str(log))]
    with subprocess.Popen(
        argv, stderr=subprocess.PIPE, text=True, env=env, start_new_session=True
    ) as process:
        yield process, fifo


def test_one_ctrl_c_sends_one_interrupt(interrupted: tuple[subprocess.Popen[str], Path]) -> None:
    process, fifo = interrupted
    with fifo.open() as output:
        assert output.readline() == "started\n"
        os.killpg(process.pid, signal.SIGINT)
        assert output.read() == "once\n"
    _, err = process.communicate(timeout=60)
    assert process.returncode != 0 and "KeyboardInterrupt" in err


def test_the_process_ends_with_its_parent(interrupted: tuple[subprocess.Popen[str], Path]) -> None:
    process, fifo = interrupted
    with fifo.open() as output:
        assert output.readline() == "started\n"
        process.kill()
        assert output.read() == ""  # all writers are gone
