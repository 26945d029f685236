"""Short questions to programs: a time limit, and no process that is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mcp_bench.plugins import bounded_command, reaper
from mcp_bench.plugins.bounded_command import Answer, answer_of
from mcp_bench.plugins.reaper import NOT_STARTED
from tests.support import ROOT

pytestmark = pytest.mark.component

HANGS = "(setsid sh -c 'echo started; sleep 600' &) ; sleep 600"
"""A process of its own session, whose parent has ended, and one in the foreground."""


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    return path


@pytest.fixture
def ask(tmp_path: Path) -> Callable[..., Answer]:
    def run(script: str, seconds: float = 60, **more) -> Answer:
        return answer_of(
            ["/bin/sh", "-c", script], env={"PATH": os.environ["PATH"]}, cwd=tmp_path, seconds=seconds, **more
        )

    return run


def test_the_answer_of_a_program(ask: Callable[..., Answer]) -> None:
    assert ask("echo 1.2; echo words >&2; exit 3") == Answer(3, b"1.2\n", b"words\n")
    assert ask("kill -TERM $$").code == 128 + signal.SIGTERM
    assert [ask(f"exit {code}").code for code in (124, 126)] == [
        124,
        126,
    ]  # what shells mean is not our business
    assert ask("kill -PIPE $$; echo still here").stdout == b""
    assert ask("cat").stdout == b""  # nothing to read
    assert ask("pwd; env").stdout.decode().splitlines()[0].startswith("/")


def test_a_program_that_cannot_be_started(tmp_path: Path) -> None:
    missing = answer_of([str(tmp_path / "missing")], env={}, cwd=tmp_path, seconds=60)
    assert (missing.code, missing.stderr) == (NOT_STARTED, b"No such file or directory\n")


def test_what_it_leaves_in_the_background_is_ended(ask: Callable[..., Answer], fifo: Path) -> None:
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    assert ask(f"(setsid sleep 600 > {fifo} &) ; echo 1.2").stdout == b"1.2\n"
    os.set_blocking(reader, True)
    assert os.read(reader, 1) == b""  # nobody has it open
    os.close(reader)


def test_the_time_limit_ends_everything(ask: Callable[..., Answer], fifo: Path) -> None:
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    notices: list[str] = []
    late = ask(f"{{ {HANGS} ; }} > {fifo}", seconds=0.7, notice=lambda: notices.append("waiting"))
    assert late.late and notices == ["waiting"]
    os.set_blocking(reader, True)
    with os.fdopen(reader) as output:
        assert output.read() in ("", "started\n")


def test_a_reaper_that_never_reports_is_given_up(
    ask: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a process that cannot be killed has its output open."""
    monkeypatch.setattr(bounded_command, "REPORT_SECONDS", 0.2)
    monkeypatch.setattr(reaper, "END_SECONDS", 0.2)
    assert ask("kill -STOP $PPID", seconds=0.2).late


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_the_end_of_the_caller_ends_everything(tmp_path: Path, fifo: Path, number: int) -> None:
    script = f"{{ {HANGS} ; }} > {fifo}"
    source = (
        "from mcp_bench.plugins.bounded_command import answer_of\n"
        f"answer_of(['/bin/sh', '-c', {script!r}], env={{'PATH': '/usr/bin:/bin'}}, cwd='/', seconds=600)\n"
    )
    caller = subprocess.Popen(
        [sys.executable, "-c", source], cwd=ROOT, stderr=subprocess.PIPE, start_new_session=True
    )
    with caller, fifo.open() as output:
        assert output.readline() == "started\n"
        caller.send_signal(number)
        assert output.read() == ""  # all its processes are gone
        caller.communicate(timeout=120)
    assert caller.returncode != 0
