"""Child processes under the agents' supervisor: no descendant outlives the command or this process.

vLLM starts a process per GPU, and a recording starts agents. All of them end with the command. They also
end if this process is killed, because that closes the supervisor's control socket. The protocol is
described in mcp_bench.bridge.process.supervisor.
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
"""An open file or its descriptor."""
STOP_SECONDS = 10.0
"""Time to end after SIGTERM, before SIGKILL."""
END_SECONDS = 30.0


class SupervisedProcess:
    """A running command. `exit_code` is None while it runs, and negative if a signal ended it."""

    def __init__(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: Path,
        stdout: Stream,
        stderr: Stream,
        stdin: Stream = subprocess.DEVNULL,
    ) -> None:
        """Start the command in a new session, so that Ctrl-C in a terminal reaches only this process.

        Raises:
            BenchError: the command could not be started.
        """
        self.exit_code: int | None = None
        self._received = b""
        self._control, theirs = socket.socketpair()
        with theirs:
            self._supervisor = subprocess.Popen(
                [os.path.realpath(sys.executable), "-I", "-S", supervisor.__file__, str(theirs.fileno())],
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                pass_fds=[theirs.fileno()],
                env={},
                start_new_session=True,
            )
        self._send({"argv": list(argv), "env": dict(env), "cwd": str(cwd)})
        reply = self._reply(END_SECONDS) or {}
        if "started" not in reply:
            self.end()
            raise BenchError(f"cannot start {argv[0]}: {reply.get('failed', 'its supervisor died')}")
        self.pid = int(str(reply["started"]))

    def wait(self, seconds: float = math.inf) -> int | None:
        """Wait until the command ends and return its exit code, or None after `seconds`."""
        deadline = time.monotonic() + seconds
        while self.exit_code is None:
            reply = self._reply(deadline - time.monotonic())
            if reply is None:
                return None
            self._note(reply)
        return self.exit_code

    def interrupt(self) -> None:
        """Send SIGINT to the command, but not to its children: it ends those itself."""
        if self.wait(0) is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGINT)

    def stop(self) -> None:
        """End the command and its descendants with SIGTERM, then SIGKILL. Return when all are gone."""
        try:
            if self.exit_code is None:
                self._send({"stop": STOP_SECONDS})
                self.wait(STOP_SECONDS + END_SECONDS)
        finally:
            self.end()

    def end(self) -> None:
        """Kill the command and its descendants. Return when all are gone."""
        try:
            self._send({"end": True})
            while not (reply := self._reply(END_SECONDS) or {"lost": True}).keys() & {"ended", "lost"}:
                self._note(reply)
        finally:  # after an interrupt, closing the socket makes the supervisor kill the rest
            self._control.close()
            self._supervisor.wait()

    def _note(self, reply: Mapping[str, object]) -> None:
        code = reply.get("exited")
        if isinstance(code, int):
            self.exit_code = code

    def _send(self, message: Mapping[str, object]) -> None:
        with suppress(OSError):  # a lost supervisor shows in the next reply
            self._control.sendall(json.dumps(message).encode() + b"\n")

    def _reply(self, seconds: float) -> dict[str, object] | None:
        """Return the next message, or None after `seconds`."""
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
