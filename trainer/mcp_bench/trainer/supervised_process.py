"""A child through the supervisor that agents have: nothing that it started outlives it, or us.

What starts processes of its own (vLLM one per GPU, a recording its agents) ends with all of them, and as well
when this process is killed: the supervisor's control socket closes then. Its protocol is described in
mcp_bench.bridge.process.supervisor.
"""

from __future__ import annotations

import json
import math
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from mcp_bench.bridge.process import supervisor
from mcp_bench.servers.errors import BenchError

Stream = IO[Any] | int
"""An open file, or its descriptor."""
STOP_SECONDS = 10.0
"""To end by itself after SIGTERM; what is left then is killed."""
END_SECONDS = 30.0


class SupervisedProcess:
    """A running command. `exit_code` is negative for a signal, and None while it runs."""

    def __init__(
        self, argv: Sequence[str], env: Mapping[str, str], cwd: Path, stdout: Stream, stderr: Stream
    ) -> None:
        """Start it, in a session of its own: a terminal's Ctrl-C is ours to pass on.

        Raises:
            BenchError: it could not be started.
        """
        self.exit_code: int | None = None
        self._received = b""
        self._control, theirs = socket.socketpair()
        with theirs:
            self._supervisor = subprocess.Popen(
                [os.path.realpath(sys.executable), "-I", "-S", supervisor.__file__, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                pass_fds=[theirs.fileno()],
                env={},
                start_new_session=True,
            )
        self._tell({"argv": list(argv), "env": dict(env), "cwd": str(cwd)})
        told = self._reply(END_SECONDS) or {}
        if "started" not in told:
            self.end()
            raise BenchError(f"{argv[0]} cannot be started: {told.get('failed', 'its supervisor died')}")
        self.pid = int(str(told["started"]))

    def wait(self, seconds: float = math.inf) -> int | None:
        """Return the exit code as soon as it has ended, or None after so long."""
        deadline = time.monotonic() + seconds
        while self.exit_code is None:
            told = self._reply(deadline - time.monotonic())
            if told is None:
                return None
            self._note(told)
        return self.exit_code

    def interrupt(self) -> None:
        """Send it what Ctrl-C sends; not to what it started, which is its own to end."""
        if self.wait(0) is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGINT)

    def stop(self) -> None:
        """Have it end, by force after a while; return when it and everything that it started is gone."""
        try:
            if self.exit_code is None:
                self._tell({"stop": STOP_SECONDS})
                self.wait(STOP_SECONDS + END_SECONDS)
        finally:
            self.end()

    def end(self) -> None:
        """Kill what is left of it and of what it started; return when all of it is gone."""
        try:
            self._tell({"end": True})
            while not (told := self._reply(END_SECONDS) or {"lost": True}).keys() & {"ended", "lost"}:
                self._note(told)
        finally:  # where we were interrupted, the closed socket has the supervisor kill what is left
            self._control.close()
            self._supervisor.wait()

    def _note(self, told: Mapping[str, object]) -> None:
        code = told.get("exited")
        if isinstance(code, int):
            self.exit_code = code

    def _tell(self, message: Mapping[str, object]) -> None:
        with suppress(OSError):  # a lost supervisor shows in the next reply
            self._control.sendall(json.dumps(message).encode() + b"\n")

    def _reply(self, seconds: float) -> dict[str, object] | None:
        """Return the next message, or None where there was none for so many seconds."""
        deadline = time.monotonic() + seconds
        while b"\n" not in self._received:
            left = max(0.001, deadline - time.monotonic())
            self._control.settimeout(None if math.isinf(left) else left)
            try:
                chunk = self._control.recv(65536)
            except TimeoutError:
                return None
            except OSError:
                chunk = b""
            if not chunk:
                return {"lost": True, "exited": -9}
            self._received += chunk
        line, _, self._received = self._received.partition(b"\n")
        reply: dict[str, object] = json.loads(line)
        return reply
