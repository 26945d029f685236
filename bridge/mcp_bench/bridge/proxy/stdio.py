"""`mcp-bench proxy CMD`: a transparent proxy for a stdio MCP server that records all traffic.

It uses blocking threads instead of an event loop: a thread reads a chunk, journals the frames that it
completes, and writes it, without a hop in between. A session ends as it would without the proxy: when the
client closes its input, the server's input is closed too; when the server ends, the client sees the end of
output. No process that the server started outlives the proxy, which is a child subreaper (prctl(2)).

For the shutdown of a session, see https://modelcontextprotocol.io/specification, "Lifecycle", stdio.
"""

from __future__ import annotations

import contextlib
import os
import queue
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from mcp_bench.bridge.process.descendants import become_subreaper, end_descendants
from mcp_bench.bridge.wire import shim
from mcp_bench.servers.errors import BenchError

if TYPE_CHECKING:
    from mcp_bench.bridge.proxy.recording import SessionRecording
    from mcp_bench.recorder.records import Direction
    from mcp_bench.recorder.run_settings import Durability

PARSE_FRAMES, PARSE_BYTES = 16, 1 << 20
"""A thread parses its frames when there are this many, since many at once cost less than each alone."""
END_SECONDS = 5.0
"""Time for a server to exit, once its input has ended and no answer is expected."""
STOP_SECONDS = 3.0
"""Time between SIGTERM and SIGKILL."""
DELIVERY_SECONDS = 30.0
"""Time for a slow client to read the last output of the server."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
NOT_FOUND, NOT_EXECUTABLE, SIGNALLED = 127, 126, 128  # exit codes as in shells


class ServerStartError(BenchError):
    """The command of the server cannot be run."""

    def __init__(self, text: str, exit_code: int) -> None:
        super().__init__(text)
        self.exit_code = exit_code


class Event(NamedTuple):
    """A message to the main thread, from another thread or a signal."""

    kind: Literal[
        "input_ended",  # by the client
        "settled",  # the server owes no answer
        "client_gone",  # the client reads no more
        "output_ended",  # by the server, and the client has received all of it
        "exited",  # the server did
        "signal",
        "failed",
        "overdue",
    ]
    value: int = 0
    error: BaseException | None = None


def run_proxy(command: Sequence[str], durability: Durability) -> int:
    """Connect the client on stdin and stdout to a server until the session ends. Return the exit code.

    If the client ended the session, it is the server's exit code. Otherwise it is never 0.

    Raises:
        ServerStartError: the command cannot be run.
        StorageError: the recording cannot be created.
    """
    become_subreaper()
    session = Session()
    watch_signals(session.events)
    server = start(command)
    try:
        # these imports take longer than anything else; the server starts in the meantime
        recording = open_recording(command, durability)
    except BaseException:
        server.kill()
        end_descendants()
        raise
    return session.run(server, recording)


def watch_signals(events: queue.SimpleQueue[Event]) -> None:
    """Turn signals into events. The system may deliver them to any thread while the main thread sleeps."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in SIGNALS:
        signal.signal(number, lambda *_: None)

    def pass_on() -> None:
        while numbers := os.read(reader, 64):
            for number in numbers:
                events.put(Event("signal", number))

    threading.Thread(target=pass_on, daemon=True).start()


def start(command: Sequence[str]) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    try:
        # in our process group, so that signals of a terminal or launcher reach the server too
        return subprocess.Popen(command, stdin=pipe, stdout=pipe, bufsize=0)
    except FileNotFoundError as error:
        raise ServerStartError(f"there is no command {command[0]!r}: is it installed?", NOT_FOUND) from error
    except (OSError, ValueError) as error:  # ValueError: a zero byte in an argument
        reason = getattr(error, "strerror", None) or error
        raise ServerStartError(f"cannot run {command[0]!r}: {reason}", NOT_EXECUTABLE) from error


def open_recording(command: Sequence[str], durability: Durability) -> SessionRecording:
    from mcp_bench.bridge.proxy.recording import SessionRecording

    return SessionRecording(command, durability)


class Session:
    """A client, a server, and the traffic between them."""

    server: subprocess.Popen[bytes]
    recording: SessionRecording

    def __init__(self) -> None:
        self.events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._input_ended = False
        self._client_gone = False
        self._delivered = False

    def run(self, server: subprocess.Popen[bytes], recording: SessionRecording) -> int:
        """Pump until the session is over, end all remaining processes, and return the exit code."""
        self.server, self.recording = server, recording
        for thread in (self._from_client, self._from_server, self._watch_client, self._reap):
            threading.Thread(target=thread, daemon=True).start()  # daemon: a read may block forever
        over = self._until_over()
        client_left = self._input_ended or self._client_gone
        if server.returncode is None:
            self._stop()
        end_descendants()  # they may hold the server's output open
        if over.kind == "failed":
            return self._close(
                1, invalid="recording_failed", detail=f"It could not be recorded: {over.error}"
            )
        self._deliver()
        code = server.returncode or 0
        code = SIGNALLED - code if code < 0 else code
        if over.kind == "signal":
            return self._close(SIGNALLED + over.value, termination="cancelled")
        if client_left:
            return self._close(code, termination="agent_exit")
        detail = f"The server ended with exit code {code} while its client was connected"
        return self._close(code or 1, invalid="server_died", detail=detail)

    def _close(
        self,
        code: int,
        *,
        termination: Literal["agent_exit", "cancelled"] | None = None,
        invalid: str | None = None,
        detail: str | None = None,
    ) -> int:
        if detail is not None:
            log(f"{detail} ({self.recording.episode})")
        try:
            self.recording.end(termination, invalid, detail, self.server.returncode)
        except BenchError as error:
            log(f"The end of the session is not recorded: {error}")
            return code or 1
        return code

    # The main thread -----------------------------------------------------------------------------

    def _until_over(self) -> Event:
        """Wait until one side has ended, or the server has exceeded its time."""
        deadline: float | None = None
        while True:
            event = self._next(deadline)
            if event.kind in ("exited", "signal", "failed", "overdue"):
                return event
            if deadline is not None:
                continue
            # a server without output is useless, but a client that still waits decides when to stop
            try:
                settled = self._input_ended and (self._client_gone or self.recording.parse_pending())
            except BenchError as error:
                return Event("failed", error=error)
            if self._delivered or settled:
                deadline = time.monotonic() + END_SECONDS

    def _next(self, deadline: float | None) -> Event:
        try:
            wait = None if deadline is None else max(0.0, deadline - time.monotonic())
            event = self.events.get(timeout=wait)
        except queue.Empty:
            return Event("overdue")
        self._input_ended |= event.kind == "input_ended"
        self._client_gone |= event.kind == "client_gone"
        self._delivered |= event.kind == "output_ended"
        return event

    def _stop(self) -> None:
        """Stop the server with SIGTERM. Kill it if it ignores that, or if a second signal arrives."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.server.pid, signal.SIGTERM)
        deadline = time.monotonic() + STOP_SECONDS
        while self._next(deadline).kind not in ("exited", "signal", "overdue"):
            pass
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.server.pid, signal.SIGKILL)
        while self.server.returncode is None:
            self._next(None)

    def _deliver(self) -> None:
        """Wait until the client has received all output of the server, or no longer reads."""
        deadline = time.monotonic() + DELIVERY_SECONDS
        while not (self._delivered or self._client_gone):
            if self._next(deadline).kind in ("signal", "failed", "overdue"):
                return

    # Other threads -------------------------------------------------------------------------------

    def _from_client(self) -> None:
        assert self.server.stdin is not None  # noqa: S101 - it is a pipe
        sink = self.server.stdin.fileno()
        try:
            if self._pump(0, sink, "client"):
                self.events.put(Event("input_ended"))
                self.server.stdin.close()
            else:  # the server takes no more input: close ours too
                nowhere = os.open(os.devnull, os.O_RDONLY)
                os.dup2(nowhere, 0)
                os.close(nowhere)
        except BaseException as error:
            self.events.put(Event("failed", error=error))

    def _from_server(self) -> None:
        assert self.server.stdout is not None  # noqa: S101 - it is a pipe
        try:
            all_passed = self._pump(self.server.stdout.fileno(), 1, "server")
            self.server.stdout.close()
            self.events.put(Event("output_ended" if all_passed else "client_gone"))
        except BaseException as error:
            self.events.put(Event("failed", error=error))

    def _pump(self, source: int, sink: int, direction: Direction) -> bool:
        """Forward until `source` ends. Return False if `sink` takes no more."""
        lines = self.recording.lines()
        taken, waiting, size = True, 0, 0
        while taken and (chunk := read(source)):
            if frames := lines.feed(chunk):
                self.recording.append_unparsed(direction, frames)
            taken = write_all(sink, chunk)
            # parse only now: the receiver already has the chunk
            waiting, size = waiting + len(frames), size + len(chunk)
            much = waiting >= PARSE_FRAMES or size >= PARSE_BYTES
            awaited = self._input_ended  # read after the frames are stored: see `_until_over`
            if waiting and (much or awaited or not self.recording.client_known):
                waiting = size = 0
                if self.recording.parse_pending() and awaited:
                    self.events.put(Event("settled"))
        if rest := lines.rest():
            self.recording.append_unparsed(direction, [rest])
            self.recording.parse_pending()
        return taken

    def _watch_client(self) -> None:
        """Notice when the client stops reading (POLLERR of a pipe, POLLHUP of a socket)."""
        poll = select.poll()
        poll.register(1, 0)
        poll.poll()
        self.events.put(Event("client_gone"))

    def _reap(self) -> None:
        """Reap the server, and the orphans that this process inherits."""
        while True:
            pid, status = os.waitpid(-1, 0)
            if pid == self.server.pid:
                self.server.returncode = os.waitstatus_to_exitcode(status)
                self.events.put(Event("exited"))
                return


def read(fd: int) -> bytes:
    """Return the next bytes; none at the end, or if the writer has broken off (a reset socket)."""
    try:
        return shim.read(fd)
    except OSError:
        return b""


def write_all(fd: int, data: bytes) -> bool:
    """Write all of `data`. Return False if the reader is gone."""
    try:
        shim.write_all(fd, data)
    except OSError:
        return False
    return True


def log(text: str) -> None:
    with contextlib.suppress(OSError):
        sys.stderr.write(f"mcp-bench proxy: {text}\n")
        sys.stderr.flush()
