"""The `mcp-bench record` that has a run open: stop it, start it again, and read what it said."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Literal

from mcp_bench.recorder.runs.lock import LOCK, is_being_written
from mcp_bench.servers.errors import BenchError, WrongUseError

LOG = "resumed-by-view.log"
START_SECONDS = 30.0
"""For which a page waits until a resumed run has begun."""
_LOOK_SECONDS = 0.1
_MOST_SAID = 2_000


def stop_run(path: Path) -> None:
    """Interrupt the `mcp-bench record` that has the run in a folder open, as Ctrl-C in its terminal does.

    Raises:
        WrongUseError: no such command on this machine has it open.
    """
    if not is_being_written(path):
        raise WrongUseError(f"{path.name} is not being recorded: there is nothing to stop")
    process, command = _writer(path)
    if b"record" not in command:
        raise WrongUseError(
            f"{path.name} is not being recorded by `mcp-bench record` on this machine. "
            "Stop it where it was started"
        )
    os.kill(process, signal.SIGINT)


def what_stops(path: Path) -> Literal["run", "matrix"]:
    """Return what the command that has the run in a folder open records: this run, or a whole matrix."""
    _, command = _writer(path)
    return "matrix" if any(word.partition(b"=")[0] == b"--config" for word in command) else "run"


def _writer(path: Path) -> tuple[int, list[bytes]]:
    """Return the process here that opened a run for writing last, and its command line; it may have ended."""
    try:
        owner = json.loads((path / LOCK).read_text())
        process = int(owner["pid"])
        if owner["host"] != socket.gethostname():
            return 0, []
        return process, Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
    except (OSError, ValueError, KeyError, TypeError):
        return 0, []


def resume_run(path: Path) -> subprocess.Popen[bytes]:
    """Start `mcp-bench record --resume` for the run in a folder, in the background and with a log beside it.

    Raises:
        WrongUseError: it is being recorded already.
        BenchError: its log cannot be written.
    """
    if is_being_written(path):
        raise WrongUseError(f"{path.name} is being recorded already")
    command = [sys.executable, "-m", "mcp_bench.bridge.cli.root", "record", "--resume", path.name]
    try:
        descriptor = os.open(path / LOG, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise BenchError(f"cannot write {path / LOG}: {error.strerror}") from error
    with os.fdopen(descriptor, "wb") as log:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )


def wait_for_start(path: Path, process: subprocess.Popen[bytes]) -> None:
    """Wait until a command that resumes a run has checked everything and said so, for some seconds at most.

    Raises:
        WrongUseError: it failed before; the text has the end of its log.
    """
    end = time.monotonic() + START_SECONDS
    begun = f"{path.name}: ".encode()
    while process.poll() is None and begun not in (path / LOG).read_bytes() and time.monotonic() < end:
        time.sleep(_LOOK_SECONDS)
    if process.poll():
        raise WrongUseError(f"`mcp-bench record --resume {path.name}` failed:\n{_end_of_log(path)}")


def last_words(path: Path) -> str:
    """Return the end of what the last resume from a page said; empty if the run was opened again since."""
    try:
        # both by the clock of files, which is coarser than that of processes
        opened_again = (path / LOG).stat().st_mtime_ns < (path / LOCK).stat().st_mtime_ns
        return "" if opened_again else _end_of_log(path)
    except OSError:
        return ""


def _end_of_log(path: Path) -> str:
    with (path / LOG).open("rb") as log:
        log.seek(max(0, log.seek(0, os.SEEK_END) - _MOST_SAID))
        return log.read(_MOST_SAID).decode("utf-8", "replace").strip()
