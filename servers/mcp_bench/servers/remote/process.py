"""The worker process: start it in a new session, keep its last output, end it reliably."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque

from mcp_bench.servers.errors import MissingDependencyError, WorkerDiedError
from mcp_bench.servers.home import VARIABLE, home
from mcp_bench.servers.terminal.sanitize import sanitize

WORKER_MODULE = "mcp_bench.servers.remote.worker"
LAST_WORDS = 10
"""Lines of the worker's last output in the error about its death."""

PASSED_ON = ("HOME", "LANG", "LC_ALL", "PATH", "TMPDIR", "TZ", "XDG_CACHE_HOME")
"""The only environment variables that a worker inherits, besides the home and the paths of secrets
(`MCP_BENCH_<NAME>_SECRET`), which private splits need. None of them holds credentials."""
SAME_ORDER = {"PYTHONHASHSEED": "0"}
"""Gives sets of strings the same order in all workers, so tools that iterate over them replay exactly."""


workers: set[int] = set()
"""Process ids of the workers of this process."""
ROOM_SECONDS = 20.0
"""For how long a worker that the machine has no room for is tried again."""
NO_ROOM = frozenset((errno.EAGAIN, errno.ENOMEM))
"""Failures of fork(2) that pass: a full process table, no memory."""


def environment() -> dict[str, str]:
    """Return the environment of a worker."""
    secrets = [name for name in os.environ if name.startswith("MCP_BENCH_") and name.endswith("_SECRET")]
    inherited = {name: os.environ[name] for name in (*PASSED_ON, *secrets) if name in os.environ}
    return inherited | SAME_ORDER | {VARIABLE: str(home())}


def start(command: list[str], control: int) -> subprocess.Popen[bytes]:
    """Start a worker; wait and try again while the machine has no room for a process.

    Raises:
        OSError: it cannot be started, or there was no room for `ROOM_SECONDS`.
    """
    deadline, wait = time.monotonic() + ROOM_SECONDS, 0.1
    while True:
        try:
            return subprocess.Popen(
                [*command, str(control)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=[control],
                start_new_session=True,
                env=environment(),
            )
        except OSError as error:
            if error.errno not in NO_ROOM or time.monotonic() + wait > deadline:
                raise
        time.sleep(wait)
        wait *= 2


class WorkerProcess:
    """A running worker and the parent's end of the socket.

    The worker leads a new session, so Ctrl-C in the terminal reaches only the parent, which then ends it.
    """

    def __init__(self, target: str, python: str) -> None:
        """Start `python` as a worker for `target` (`module:attribute` or `file.py:attribute`).

        Raises:
            MissingDependencyError: there is no such interpreter.
            WorkerDiedError: the machine has no room for another process.
        """
        self.socket, theirs = socket.socketpair()
        try:
            self._process = start([python, "-s", "-P", "-m", WORKER_MODULE, target], theirs.fileno())
        except OSError as error:
            self.socket.close()
            if error.errno in NO_ROOM:
                raise WorkerDiedError(
                    f"the machine had no room for a worker for {ROOM_SECONDS:.0f} s ({error.strerror}). "
                    "Free some, or record fewer episodes at a time with --jobs"
                ) from error
            raise MissingDependencyError(f"cannot start the Python {python!r}: {error.strerror}") from error
        finally:
            theirs.close()
        self.pid = self._process.pid
        workers.add(self.pid)
        self._pidfd = os.pidfd_open(self.pid)
        self._ending = threading.Lock()
        self._words: deque[str] = deque(maxlen=LAST_WORDS)
        self._listener = threading.Thread(target=self._pass_on_output, name="worker-output", daemon=True)
        self._listener.start()

    def _pass_on_output(self) -> None:
        assert self._process.stdout is not None  # noqa: S101 - we asked for a pipe
        with self._process.stdout as output:
            for line in output:
                text = line.decode(errors="replace")
                self._words.append(text.rstrip())
                with contextlib.suppress(OSError, ValueError):  # stderr may be closed
                    sys.stderr.write(sanitize(text))

    def end(self, grace: float = 0.0) -> int:
        """Wait up to `grace` seconds for the process to end, kill its session, and return the exit code."""
        with self._ending:
            if self._process.returncode is None:
                gone = select.poll()
                gone.register(self._pidfd, select.POLLIN)
                gone.poll(grace * 1000)
                # not yet reaped, so the process id is still valid; its children are killed too
                os.killpg(self.pid, signal.SIGKILL)
                workers.discard(self.pid)
                self._process.wait()
                os.close(self._pidfd)
        code = self._process.returncode
        if self._listener is not threading.current_thread():
            self._listener.join(1.0)
        return code

    def last_words(self) -> str:
        return "\n".join(f"  {line}" for line in self._words)
