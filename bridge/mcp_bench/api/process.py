"""The process that records for this one, and what it reports. See `mcp_bench.bridge.run.child`."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import mcp_bench.recorder.errors  # noqa: F401 - so that its errors are known here
from mcp_bench.api.progress import Progress, Silent, shown, terminal
from mcp_bench.bridge.engines.channel import line
from mcp_bench.bridge.run.child import Request
from mcp_bench.bridge.run.events import Event, RunEnded, RunStarted, decode
from mcp_bench.servers.errors import BenchError
from mcp_bench.servers.home import VARIABLE
from mcp_bench.servers.terminal.sanitize import sanitize

MODULE = "mcp_bench.bridge.run.child"
CHUNK = 1 << 16
LAST_WORDS = 2000
"""Characters of the last output of a process that died."""

OnEvent = Callable[[Event], object]


class RunDiedError(BenchError):
    """The process that recorded ended unexpectedly. What it recorded is kept."""


class RunProcess:
    """A running recording.

    Exactly one of `wait` and `wait_async` is called. Whatever ends the waiting early, such as Ctrl-C, a
    cancelled task or an error in `on_event`, stops the agents first. A second interruption stops at once.
    """

    def __init__(
        self,
        request: Request,
        home: Path,
        env: Mapping[str, str] | None,
        on_event: OnEvent | None,
        progress: bool | None,
    ) -> None:
        """Start the process.

        Args:
            request: what to record. `parent` and `terminal` are set here.
            home: where recordings are stored.
            env: variables to add to those of this process.
            on_event: called with each event.
            progress: whether to show the progress. None: unless there is an `on_event`.
        """
        visible = on_event is None if progress is None else progress
        stderr = terminal() if visible else None
        self._progress: Progress = shown() if visible and stderr is None else Silent()
        self._on_event = on_event
        self._ended: RunEnded | None = None
        self._error: BenchError | None = None
        self._run: str | None = None
        self._received = b""
        self._stops = 0
        self._open = ExitStack()
        self._control, theirs = socket.socketpair()
        self._open.enter_context(self._control)
        # what is left to say when even the interpreter fails
        self._words = os.memfd_create("last-words")
        self._open.callback(os.close, self._words)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", MODULE, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=self._words if stderr is None else stderr,
                stderr=self._words if stderr is None else stderr,
                pass_fds=[theirs.fileno()],
                env={**os.environ, **(env or {}), VARIABLE: str(home)},
                start_new_session=True,  # Ctrl-C in a terminal reaches only this process, which passes it on
            )
        with suppress(OSError):  # it is gone: that is reported below
            here = {"parent": os.getpid(), "terminal": stderr is not None}
            self._control.sendall(line({**request.model_dump(), **here}))

    def wait(self) -> RunEnded:
        """Return the result when the run has ended.

        Raises:
            BenchError: what the command reports.
            RunDiedError: the process died.
        """
        early: BaseException | None = None
        while True:
            try:
                while data := self._receive():
                    self._take(data)
                self._process.wait()
                break
            except BaseException as error:
                early = early or error
                self._stop()
        return self._result(early)

    async def wait_async(self) -> RunEnded:
        """Like `wait`, for use in an event loop of asyncio or trio."""
        import anyio

        early: BaseException | None = None
        self._control.setblocking(False)
        while True:
            try:
                with anyio.CancelScope(shield=early is not None):
                    while (data := await self._received_async()) != b"":
                        self._take(data)
                    await anyio.to_thread.run_sync(self._process.wait)
                break
            except BaseException as error:
                early = early or error
                self._stop()
        return self._result(early)

    async def _received_async(self) -> bytes:
        import anyio

        while True:
            await anyio.wait_readable(self._control)
            with suppress(BlockingIOError):
                return self._receive()

    def _receive(self) -> bytes:
        try:
            return self._control.recv(CHUNK)
        except ConnectionError:
            return b""

    def _take(self, data: bytes) -> None:
        *lines, self._received = (self._received + data).split(b"\n")
        for text in lines:
            try:
                document = json.loads(text)
            except ValueError:  # an interruption took a part of it away
                continue
            self._handle(document)

    def _handle(self, document: dict[str, Any]) -> None:
        if "line" in document:
            self._progress.line(document["line"])
        elif "status" in document:
            self._progress.status(document["status"])
        elif "error" in document:
            self._error = _error(document["error"], document["text"])
        elif (event := decode(document)) is not None:
            if isinstance(event, RunStarted):
                self._run = event.run
            if isinstance(event, RunEnded):
                self._ended = event
            if self._on_event is not None:
                self._on_event(event)

    def _stop(self) -> None:
        """Stop the agents; the second time at once, the third time without any care."""
        self._stops += 1
        self._on_event = None
        with suppress(OSError):
            self._control.send(b"stop\n")
        if self._stops > 2:
            self._process.kill()

    def _result(self, early: BaseException | None) -> RunEnded:
        with self._open:
            if early is not None:
                if self._run is not None:
                    early.add_note(f"The recordings are kept. Go on with mcp_bench.api.resume({self._run!r})")
                raise early
            if self._error is not None:
                raise self._error
            if self._ended is None:
                raise RunDiedError(self._death())
            return self._ended

    def _death(self) -> str:
        code = self._process.returncode
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        said = os.pread(self._words, os.fstat(self._words).st_size, 0).decode(errors="replace")
        words = sanitize(said.strip()[-LAST_WORDS:])
        kept = f". The recordings are kept: resume({self._run!r}) goes on" if self._run else ""
        return f"the process that recorded ended with {how}{kept}" + (f"\n{words}" if words else "")


def _error(kinds: list[str], text: str) -> BenchError:
    """Return an error of the most exact class of `kinds` that this process knows."""
    known = {kind.__name__: kind for kind in _subclasses(BenchError)}
    kind = next((known[name] for name in kinds if name in known), BenchError)
    error = kind.__new__(kind, text)
    error.args = (text,)
    return error


def _subclasses(kind: type[BenchError]) -> Iterator[type[BenchError]]:
    yield kind
    for other in kind.__subclasses__():
        yield from _subclasses(other)
