"""One process that records run after run, for many short recordings: see `mcp_bench.bridge.cli.recorder`."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from mcp_bench.bridge.cli.settings.settings_files import NO_FILES
from mcp_bench.trainer.supervised_process import SupervisedProcess
from mcp_bench.trainer.trial.commands import StepFailedError, interrupt_later, printed_document

MODULE = "mcp_bench.bridge.cli.recorder"


class Recorder:
    """Starts its process with the first recording. Use it as a context manager, which ends the process."""

    def __init__(self) -> None:
        self._process: SupervisedProcess | None = None
        self._socket: socket.socket | None = None
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closed = True
        self.end()

    def run(self, arguments: Sequence[str], *, wrong: Sequence[int] = (), log: Path) -> Any:
        """Record as `mcp-bench record` does, and return what it prints with `--json`.

        Args:
            arguments: `record` and its arguments.
            wrong: exit codes other than 0 that are accepted.
            log: file to append its messages to.

        Raises:
            StepFailedError: it failed.
            KeyboardInterrupt: the user pressed Ctrl-C.
        """
        if self._closed:  # another thread may ask for the next recording when all is over
            raise StepFailedError("nothing is recorded any more")
        order = {"arguments": arguments, "env": {**os.environ, **NO_FILES}, "log": str(log)}
        answer = self._obeyed(json.dumps(order).encode() + b"\n", log)
        if answer is None:
            self.end()
            raise StepFailedError(f"the process that records has ended: see {log}")
        return printed_document(arguments, answer["code"], answer["printed"], wrong, log)

    def end(self) -> None:
        """End the process and its descendants."""
        process, control = self._process, self._socket
        self._process = self._socket = None
        if control is not None:
            control.close()
        if process is not None:
            process.end()

    def _obeyed(self, order: bytes, log: Path) -> dict[str, Any] | None:
        """Send an order and return the answer; None if the process has ended."""
        try:
            with interrupt_later() as interrupted:
                control = self._started(log)
                with suppress(OSError):  # it has ended: so there is no answer
                    control.sendall(order)
            if interrupted:
                raise KeyboardInterrupt
            return _answer(control)
        except KeyboardInterrupt:
            if self._process is not None and self._socket is not None:
                self._process.interrupt()  # let it finish; a second Ctrl-C ends it at once
                _answer(self._socket)
            raise

    def _started(self, log: Path) -> socket.socket:
        if self._socket is None:
            ours, theirs = socket.socketpair()
            argv, env = [sys.executable, "-m", MODULE], {**os.environ, **NO_FILES}
            with theirs, log.open("ab") as stderr:
                stdin = theirs.fileno()
                self._process = SupervisedProcess(argv, env, Path.cwd(), stderr, stderr, stdin=stdin)
            self._socket = ours
        return self._socket


def _answer(control: socket.socket) -> dict[str, Any] | None:
    """Return the answer to an order, or None if the process has ended: nobody else has its end."""
    try:
        line = control.makefile("rb").readline()
    except OSError:
        return None
    if not line.endswith(b"\n"):
        return None
    found: dict[str, Any] = json.loads(line)
    return found
