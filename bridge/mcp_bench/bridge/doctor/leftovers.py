"""Ends what a check had started and was given up."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress

from mcp_bench.bridge.supervisor import descendants

SECONDS = 5.0
POLL_SECONDS = 0.02


def end_leftovers() -> None:
    """Kill every process below this one, a subreaper.

    Threads that were given up may still start some and wait for others, so nothing is waited for in turn.
    """
    deadline = time.monotonic() + SECONDS
    while (left := descendants(os.getpid())) and time.monotonic() < deadline:
        for pid in left:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(POLL_SECONDS)
