"""Ask a program something within a time limit, and leave no process of it behind."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mcp_bench.plugins import reaper

NOTICE_SECONDS = 0.5
"""After so long, a user wants to know what is being waited for."""
REPORT_SECONDS = 30.0
"""For the reaper to start and to report, on a busy machine."""


@dataclass(frozen=True)
class Answer:
    code: int
    """The exit code, or one of `reaper`."""
    stdout: bytes
    stderr: bytes

    @property
    def late(self) -> bool:
        """Whether it was ended because of the time limit."""
        return self.code == reaper.LATE


def answer_of(
    command: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: str | Path,
    seconds: float,
    notice: Callable[[], object] | None = None,
) -> Answer:
    """Run a command, and end all that it started when it exits, after `seconds`, or when this process ends.

    The last one holds for SIGTERM and SIGKILL, too. Ctrl-C in a terminal does not reach the command itself.

    Args:
        command: the program, by its path, and its arguments.
        env: its whole environment.
        cwd: its working directory.
        seconds: the time limit.
        notice: called once if it takes more than a moment.
    """
    theirs, ours = os.pipe()
    with (
        os.fdopen(theirs, "rb") as end,
        os.fdopen(ours, "wb") as lifeline,
        subprocess.Popen(
            [sys.executable, "-I", "-S", reaper.__file__, str(seconds), *command],
            env=env,
            cwd=cwd,
            stdin=end,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        ) as process,
    ):
        limit = seconds + reaper.END_SECONDS + REPORT_SECONDS
        try:
            stdout, stderr = communicated(process, limit, notice)
        except subprocess.TimeoutExpired:  # a process that cannot be killed has the pipe
            process.kill()
            return Answer(reaper.LATE, b"", b"")
        finally:
            lifeline.close()  # before the wait for its end
    return Answer(process.returncode, stdout, stderr)


def communicated(
    process: subprocess.Popen[bytes], limit: float, notice: Callable[[], object] | None
) -> tuple[bytes, bytes]:
    if notice is not None:
        try:
            return process.communicate(timeout=NOTICE_SECONDS)
        except subprocess.TimeoutExpired:
            notice()
    return process.communicate(timeout=limit)
