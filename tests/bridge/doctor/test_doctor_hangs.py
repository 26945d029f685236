"""`mcp-bench doctor` with a plugin that never answers: the time limit, and Ctrl-C."""

import json
import os
import pty
import signal
import subprocess
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.machines.doctor_machine import third_party

pytestmark = pytest.mark.system

HANGS = """
import os, subprocess
from mcp_bench.plugins.contracts import Capabilities

class Hangs:
    name, summary, capabilities, options = "hangs", "", Capabilities(), {}
    def find(self, environ):
        with open(environ["FIFO"], "w") as output:
            command = ["/bin/sh", "-c", "echo started; sleep 60; echo ended by itself"]
            subprocess.Popen(command, stdout=output, start_new_session=True).wait()
"""


@pytest.fixture
def hanging(bench, tmp_path: Path) -> Path:
    """Install a plugin that waits forever for a process that keeps this FIFO open."""
    third_party(bench, tmp_path, HANGS, {"hangs": "Hangs"})
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    bench.environ["FIFO"] = str(fifo)
    return fifo


def test_a_hanging_plugin_hits_the_time_limit(bench, hanging: Path) -> None:
    bench.environ["FORCE_COLOR"] = "1"  # rich takes a log for a terminal then
    done = bench.run("doctor", "hangs", "--timeout", "0.5", "--json", code=1)
    result = json.loads(done.stdout)
    assert "\x1b" not in done.stderr
    [late] = [row for row in result["findings"] if (row["subject"], row["check"]) == ("hangs", "time")]
    assert late["text"] == "no answer within 0.5 s"


@pytest.mark.parametrize(
    ("number", "code", "words"), [(signal.SIGINT, 1, "Aborted"), (signal.SIGTERM, 143, "")]
)
def test_ctrl_c_and_sigterm_leave_nothing_behind(
    bench, hanging: Path, number: signal.Signals, code: int, words: str
) -> None:
    with bench.start("doctor", "hangs", "--timeout", "3600") as process, hanging.open() as output:
        assert output.readline() == "started\n"
        process.send_signal(number)
        assert output.read() == ""  # all its processes are gone
        _, err = process.communicate(timeout=120)
    assert process.returncode == code and words in err and "Traceback" not in err


def test_ctrl_c_during_a_fork_is_not_lost(bench, hanging: Path, tmp_path: Path) -> None:
    hook = (
        "import os, signal; os.register_at_fork(after_in_parent=lambda: os.kill(os.getpid(), signal.SIGINT))"
    )
    (tmp_path / "third-party" / "sitecustomize.py").write_text(hook)
    assert "Aborted" in bench.run("doctor", "hangs", "--timeout", "3600", code=1).stderr


def test_a_terminal_shows_the_running_checks(bench, hanging: Path) -> None:
    ours, theirs = pty.openpty()
    seen, shown = bytearray(), threading.Event()

    def read() -> None:
        with suppress(OSError):  # how a closed terminal shows
            while chunk := os.read(ours, 4096):
                seen.extend(chunk)
                if b"checking hangs" in seen:
                    shown.set()

    process = subprocess.Popen(
        bench.command("doctor", "hangs", "--timeout", "3600"),
        env=bench.environment() | {"TERM": "xterm", "COLUMNS": "200"},
        stdout=subprocess.PIPE, stderr=theirs, cwd=bench.home.parent,
    )  # fmt: skip
    os.close(theirs)
    reader = threading.Thread(target=read)
    reader.start()
    with process, hanging.open():
        assert shown.wait(120), bytes(seen)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)
    reader.join()
    os.close(ours)
    assert b"\x1b[?25h" in seen  # the cursor is back
