"""One referee process, seen from the run's process."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from anyio.abc import Process, SocketStream
from pydantic import BaseModel

from mcp_bench.bridge.engines.messages import Report, Work
from mcp_bench.bridge.process.orphans import spared, start_ticks
from mcp_bench.recorder.records import PlannedEpisode
from mcp_bench.servers.errors import BenchError

MODULE = "mcp_bench.bridge.run.referee"
LOG = "referee.log"
LAST_WORDS = 2000
"""Characters of the log of a process that died."""


class RefereeError(BenchError):
    """A referee process cannot work, or failed; the text says why."""


@dataclass
class Open:
    """An attempt that was ordered."""

    planned: PlannedEpisode
    number: int
    over: anyio.Event = field(default_factory=anyio.Event)
    report: Report | None = None
    """How it ended; None if its process was lost and nothing is known."""
    lost: str = ""
    """How its process ended, if it ended first."""


class Referee:
    """A running referee process, and the attempts that it has in progress."""

    def __init__(self, part: Path, process: Process, stream: SocketStream) -> None:
        """Use `start` instead."""
        self.part = part
        self.process = process
        self.since = start_ticks(process.pid)
        """When it started, in clock ticks since boot."""
        self.open: dict[int, Open] = {}
        self.calls = 0
        self._stream = stream
        self._sending = anyio.Lock()
        self._received = b""

    @classmethod
    async def start(
        cls, work: Work, module: str = MODULE, environ: Mapping[str, str] | None = None
    ) -> Referee:
        """Start a process, and return when it has checked everything.

        Args:
            work: what it gets.
            module: what it runs.
            environ: its environment; by default that of this process.

        Raises:
            RefereeError: something does not work there.
        """
        ours, theirs = socket.socketpair()
        part = Path(work.part)
        with theirs, (part / LOG).open("wb") as log:
            process = await anyio.open_process(
                [sys.executable, "-P", "-m", module, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environ,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C is for the run's process
            )
        spared.add(process.pid)
        referee = cls(part, process, await SocketStream.from_socket(ours))
        try:
            await referee.send(work)
            async for report in referee.reports():
                if report.error is not None:
                    who = "a referee process cannot record: " if module == MODULE else ""
                    raise RefereeError(f"{who}{report.error}")
                if report.ready:
                    return referee
            await referee.gone()
            raise RefereeError(f"a referee process ended at its start: {referee.how_it_ended()}")
        except BaseException:
            with suppress(ProcessLookupError):
                process.kill()
            with anyio.CancelScope(shield=True):
                await referee.gone()
            raise

    async def send(self, message: BaseModel) -> None:
        """Send a line. Nothing happens if the process is gone: `reports` ends then."""
        await self.send_line(message.model_dump_json())

    async def send_line(self, line: str) -> None:
        """Send a message that is JSON already. See `send`."""
        data = line.encode() + b"\n"
        async with self._sending:
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                await self._stream.send(data)

    async def reports(self) -> AsyncIterator[Report]:
        """Yield what the process reports, until it is gone."""
        while True:
            while b"\n" in self._received:
                line, _, self._received = self._received.partition(b"\n")
                yield Report.model_validate(json.loads(line))
            try:
                self._received += await self._stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                return

    async def end(self) -> None:
        """Let the process end its attempts and close its part; return when it is gone."""
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            await self._stream.send_eof()
        await self.gone()

    async def gone(self) -> None:
        """Return when the process is gone."""
        await self.process.wait()
        spared.discard(self.process.pid)
        await self._stream.aclose()

    def how_it_ended(self) -> str:
        """Return the end of the process in words."""
        code = self.process.returncode
        how = f"signal {signal.Signals(-code).name}" if code is not None and code < 0 else f"exit code {code}"
        try:
            words = (self.part / LOG).read_text(errors="replace")[-LAST_WORDS:].strip()
        except OSError:
            words = ""
        return f"{how}: {words}" if words else how


def end_at_once(referees: list[Referee], seconds: float) -> None:
    """Let processes end their agents now, outside the event loop; kill those that have not after a time."""
    handles = []
    for referee in referees:
        with suppress(OSError):
            handles.append(os.pidfd_open(referee.process.pid))
            os.kill(referee.process.pid, signal.SIGTERM)
    _wait(handles, seconds)
    for handle in handles:
        with suppress(OSError):
            signal.pidfd_send_signal(handle, signal.SIGKILL)


def _wait(handles: list[int], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    waiting = set(handles)
    while waiting and (left := deadline - time.monotonic()) > 0:
        waiting -= set(select.select(list(waiting), [], [], left)[0])
