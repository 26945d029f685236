"""Where the long-lived referee lives: its sockets, its lock and its secret, below MCP_BENCH_HOME.

Standard library only, like all that `mcp-bench connect` imports: an agent waits for it.
"""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path

from mcp_bench.recorder.paths import home
from mcp_bench.servers.errors import BenchError

SOCKET_PATH_BYTES = 107
"""The longest path of a Unix socket (sun_path less its closing zero, see unix(7))."""
POLL_SECONDS = 0.02


class RefereePaths:
    """The folder `referee/`, mode 0700."""

    def __init__(self) -> None:
        self.home = home()
        self.folder = self.home / "referee"
        self.client_socket = self.folder / "entry.sock"
        self.control_socket = self.folder / "control.sock"
        self.secret = self.folder / "secret"
        """What control demands; made anew by every referee."""
        self.lock = self.folder / "lock"
        """Held by the referee that is up: by the kernel's word, not by the file's being there."""
        self.starting = self.folder / "starting"
        """Held from before a referee is launched until it listens."""
        self.log = self.folder / "log"
        self.runs = self.folder / "runs"
        """The ids of the runs that the referee writes, a line each."""

    def prepare(self) -> None:
        """Make the folder.

        Raises:
            BenchError: it cannot be written, or its path is too long for a socket.
        """
        if len(os.fsencode(self.control_socket)) > SOCKET_PATH_BYTES:
            raise BenchError(
                f"the path of {self.folder} is too long for a Unix socket. "
                "Set MCP_BENCH_HOME to a shorter one"
            )
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.folder.chmod(0o700)
        except OSError as error:
            raise BenchError(
                f"cannot write to {error.filename}: {error.strerror}. Set MCP_BENCH_HOME to a folder that "
                "you can write"
            ) from error


def take(path: Path, seconds: float) -> int | None:
    """Lock a file and return its descriptor, None where another process keeps it for `seconds`.

    The kernel lets go of the lock when its last holder is gone, however it went.
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
    """Whether a process holds the lock."""
    try:
        descriptor = take(path, 0)
    except OSError:  # no such file
        return False
    if descriptor is None:
        return True
    os.close(descriptor)
    return False
