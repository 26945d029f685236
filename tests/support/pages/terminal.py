"""Run `mcp-bench` on a terminal of a given width."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios


def on_terminal(columns: int, *args: str, colours: bool = False, **environ: str) -> str:
    """Run a command on a terminal of this width, and return its output, by default without colours.

    `environ` is added to the environment.
    """
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    inherited = {name: os.environ[name] for name in os.environ.keys() - {"COLUMNS", "LINES", "NO_COLOR"}}
    environment = {**inherited, "TERM": "xterm", **environ}
    argv = [sys.executable, "-m", "mcp_bench.bridge.cli.root", *args]
    with subprocess.Popen(
        argv, stdin=follower, stdout=follower, stderr=subprocess.DEVNULL, env=environment
    ) as run:
        os.close(follower)
        shown = bytearray()
        with contextlib.suppress(OSError):  # Linux raises EIO when all writers have closed the terminal
            while data := os.read(leader, 65536):
                shown += data
    os.close(leader)
    assert run.returncode == 0
    text = shown.decode()
    return text if colours else re.sub(r"\x1b\[[0-9;]*m", "", text)
