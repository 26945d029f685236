"""Ctrl-C in the middle of a long command."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


def interrupted(
    command: Sequence[str], at: str, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> str:
    """Press Ctrl-C after the command prints `at`; return its stderr. The exit code must not be 0."""
    with subprocess.Popen(
        command, cwd=cwd, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        said = []
        for line in process.stderr:
            said.append(line)
            if at in line:
                os.killpg(process.pid, signal.SIGINT)
                break
        said.append(process.stderr.read())
    assert process.returncode != 0
    return "".join(said)
