"""Files of the long-lived referee below MCP_BENCH_HOME: sockets, locks, secret and log.

This module imports no third-party package, because the agent waits while `mcp-bench connect` starts.
"""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path

from mcp_bench.recorder.paths import SOCKET_PATH_BYTES
from mcp_bench.servers.errors import BenchError
from mcp_bench.servers.home import home

POLL_SECONDS = 0.02


class RefereePaths:
    """Paths in the folder `referee/`, which has mode 0700."""

    def __init__(self) -> None:
        self.home = home()
        self.folder = self.home / "referee"
        self.client_socket = self.folder / "entry.sock"
        self.control_socket = self.folder / "control.sock"
        self.secret = self.folder / "secret"
        """Required on the control socket. Each referee creates a new one."""
        self.lock = self.folder / "lock"
        """Locked by the referee that is up. The lock counts, not the existence of the file."""
        self.starting = self.folder / "starting"
        """Locked from before a referee is launched until it listens."""
        self.log = self.folder / "log"
        self.runs = self.folder / "runs"
        """Ids of the runs that the referee writes, one per line."""

    def refuse_long(self) -> None:
        """Raise BenchError if the folder's path is too long for a socket."""
        if len(os.fsencode(self.control_socket)) > SOCKET_PATH_BYTES:
            raise BenchError(
                f"the path {self.folder} is too long for a Unix socket. Set MCP_BENCH_HOME to a shorter path"
            )

    def prepare(self) -> None:
        """Create the folder.

        Raises:
            BenchError: the folder is not writable, or its path is too long for a socket.
        """
        self.refuse_long()
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.folder.chmod(0o700)
        except OSError as error:
            raise BenchError(
                f"cannot write to {error.filename}: {error.strerror}. Set MCP_BENCH_HOME to a writable folder"
            ) from error


def take(path: Path, seconds: float) -> int | None:
    """Lock a file and return its descriptor, or None if another process still holds it after `seconds`.

    The kernel releases the lock when the last process that holds it ends, even after SIGKILL.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + seconds
    while True:
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        if time.monotonic() >= deadline:
            os.close(descriptor)
            return None
        time.sleep(POLL_SECONDS)


def is_held(path: Path) -> bool:
    """Return whether a process holds the lock."""
    try:
        descriptor = take(path, 0)
    except OSError:  # no such file
        return False
    if descriptor is None:
        return True
    os.close(descriptor)
    return False
