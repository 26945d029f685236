"""The referee's handle on an agent or server process, which it controls through a supervisor."""

from __future__ import annotations

import errno
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, TypeVar

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream, Process, SocketAttribute, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

from mcp_bench.bridge.isolation import canaries
from mcp_bench.bridge.isolation.level import Confinement
from mcp_bench.bridge.process import supervisor
from mcp_bench.bridge.process.descendants import END_SECONDS, send
from mcp_bench.bridge.process.fork_server_process import Fork, ForkServerLostError
from mcp_bench.bridge.process.limits import AgentLimits
from mcp_bench.bridge.process.log_file import open_log
from mcp_bench.bridge.process.orphans import end_orphans, spared, start_ticks
from mcp_bench.plugins.contracts import WarmStart
from mcp_bench.servers.errors import BenchError

T = TypeVar("T")

INTERPRETER = os.path.realpath(sys.executable)
"""Python outside any virtual environment: shim and supervisor need the standard library only."""

_supervisors: dict[int, socket.socket] = {}
"""Control sockets of the referee's live supervisors, by process id."""

FILE_BYTES = 1 << 30
"""Size limit of any file that an agent writes, including the logs of its output."""
DEATH_SECONDS = 5.0
"""Time limit for a killed supervisor to disappear."""
SILENCE_SECONDS = END_SECONDS + 5.0
"""After this time without an answer to `end`, a supervisor is killed. The referee then ends the processes
itself, so ending takes half a minute at most, and as a rule a hundredth of a second."""

LAUNCH_SECONDS = 150.0
"""For an answer to a launch; more than a supervisor waits for a sandbox, and for room for a process."""
ROOM_SECONDS = 30.0
"""For how long a process that the machine has no room for is tried again."""
NO_ROOM = frozenset((errno.EAGAIN, errno.ENOMEM, errno.ENFILE, errno.EMFILE))
"""Failures of fork(2) and open(2) that pass: a full process table, no memory, too many open files."""


class LaunchError(BenchError):
    """A process could not be started."""


class AgentProcess:
    """A launched agent. `exit_code` is negative for a signal and None while the agent runs."""

    def __init__(self, supervisor_pid: int, control: SocketStream) -> None:
        self.supervisor_pid = supervisor_pid
        self.exit_code: int | None = None
        self.over = ""
        """Which limit the agent exceeded; the supervisor has ended it for that."""
        self.left = 0
        """Processes that could not be ended."""
        self._ended = self._lost = False
        self._started = start_ticks(supervisor_pid)
        self._control = control
        self._replies = BufferedByteReceiveStream(control)

    async def launch(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: Path,
        *,
        file_bytes: int | None = FILE_BYTES,
        confinement: Confinement | None = None,
        warm_start: WarmStart | None = None,
        limits: tuple[AgentLimits, Path] | None = None,
    ) -> None:
        """Start the program.

        Args:
            file_bytes: Size limit of a file; SIGXFSZ ends a process that exceeds it.
            warm_start: Used only by a supervisor from a fork server.
            limits: What the agent may use, and the episode's folder.

        Raises:
            LaunchError: the program could not be started; the text says why.
        """
        spec: dict[str, object] = {
            "argv": list(argv),
            "env": dict(env),
            "cwd": str(cwd),
            "file_bytes": file_bytes,
            "limits": limits and {**limits[0]._asdict(), "folder": str(limits[1])},
            "confinement": confinement and asdict(confinement),
            "warm_start": warm_start and {"module": warm_start.modules[0], "arguments": warm_start.arguments},
        }
        reply: dict[str, object] = {"failed": f"no answer from its supervisor for {LAUNCH_SECONDS:g} seconds"}
        with anyio.move_on_after(LAUNCH_SECONDS):  # an agent can stop its supervisor before that has answered
            await self._send(spec)
            reply = await self._reply()
        if "started" not in reply:
            raise LaunchError(f"it could not be started: {reply.get('failed', 'its supervisor died')}")

    async def wait(self) -> int:
        """Wait for the launched process itself to exit (not its descendants), and return its exit code."""
        while self.exit_code is None:
            self._note(await self._reply())
        return self.exit_code

    async def stop(self, grace: float) -> None:
        """Send SIGTERM to the agent, and SIGKILL `grace` seconds later. Call `wait` afterwards."""
        await self._send({"stop": grace})

    async def end(self) -> None:
        """Kill all remaining processes, and return when they are gone, or after `SILENCE_SECONDS` and more.

        `left` is then the number of processes that could not be ended.
        """
        if self._ended:
            return
        with anyio.move_on_after(SILENCE_SECONDS):
            await self._send({"end": True})
            while not self._ended:
                reply = await self._reply()
                self._note(reply)
                self._ended = "lost" in reply or "ended" in reply
        if not self._ended:
            send(signal.SIGKILL, [self.supervisor_pid])
            self._note({"lost": True, "exited": -int(signal.SIGKILL)})
            self._ended = True
        if self._lost or self.left:  # the orphans of a dead supervisor are our children now
            self.left = await anyio.to_thread.run_sync(self._end_orphans)

    def _end_orphans(self) -> int:
        # a dying process closes its sockets shortly before its children are reparented to us
        with suppress(OSError):  # gone already
            supervisor = os.pidfd_open(self.supervisor_pid)
            gone = select.poll()
            gone.register(supervisor, select.POLLIN)
            gone.poll(DEATH_SECONDS * 1000)
            os.close(supervisor)
        return end_orphans(self._started)

    def _note(self, reply: Mapping[str, object]) -> None:
        """Keep what a message of the supervisor says."""
        code, left = reply.get("exited"), reply.get("left")
        if self.exit_code is None and isinstance(code, int):
            self.exit_code = code
        if isinstance(left, int):
            self.left = left
        self.over = self.over or str(reply.get("over", ""))
        self._lost |= "lost" in reply

    async def _send(self, message: dict[str, object]) -> None:
        with suppress(anyio.BrokenResourceError):  # a lost supervisor shows in the next reply
            await self._control.send(json.dumps(message).encode() + b"\n")

    async def _reply(self) -> dict[str, object]:
        try:
            line = await self._replies.receive_until(b"\n", 1 << 16)
        except (anyio.IncompleteRead, anyio.EndOfStream, anyio.BrokenResourceError):
            return {"lost": True, "exited": -int(signal.SIGKILL)}
        reply: dict[str, object] = json.loads(line)
        return reply


@asynccontextmanager
async def agent_process(
    stdin: bytes, stdout: Path, stderr: Path, fork: Fork | None = None
) -> AsyncIterator[AgentProcess]:
    """Start a supervisor for one agent. On exit, all processes that the agent started are gone.

    `stdin` reaches the agent through an unnamed file: no other process can read it, and writing it does not
    block. With `fork`, the supervisor comes from a fork server, unless that is lost.

    Raises:
        LaunchError: its supervisor could not be started.
    """
    with launch_errors(), TemporaryFile() as feed, open_log(stdout) as out:
        feed.write(stdin)
        feed.seek(0)
        supervised = None
        if fork is not None:
            with open_log(stderr) as err, suppress(ForkServerLostError):
                supervised = _forked(*await fork(feed, out, err))
        if supervised is None:
            supervised = _supervised(*await _with_room(lambda: _start_supervisor(feed, out, stderr)))
    async with supervised as agent:
        yield agent


@asynccontextmanager
async def piped_process(
    stderr: Path,
) -> AsyncIterator[tuple[AgentProcess, ByteSendStream, ByteReceiveStream]]:
    """Start a supervisor for a program, and yield it with the pipes to its stdin and stdout.

    Raises:
        LaunchError: its supervisor could not be started.
    """
    with launch_errors():
        pipe = subprocess.PIPE
        process, control = await _with_room(lambda: _start_supervisor(pipe, pipe, stderr))
    assert process.stdin is not None and process.stdout is not None  # noqa: S101 - they are pipes
    async with _supervised(process, control) as server:
        yield server, process.stdin, process.stdout


@asynccontextmanager
async def _supervised(process: Process, control: socket.socket) -> AsyncIterator[AgentProcess]:
    async with (
        process,
        await SocketStream.from_socket(control) as stream,
        _watched(process.pid, stream) as agent,
    ):
        try:
            yield agent
        finally:
            with anyio.CancelScope(shield=True):
                await agent.end()
                await process.wait()


@asynccontextmanager
async def _forked(pid: int, handle: int, stream: SocketStream) -> AsyncIterator[AgentProcess]:
    """Do the same for a supervisor that is not our child. Closes `handle`, its pidfd."""
    async with stream, _watched(pid, stream) as agent:
        try:
            yield agent
        finally:
            with anyio.CancelScope(shield=True):
                await agent.end()
                await anyio.wait_readable(handle)
            os.close(handle)


@asynccontextmanager
async def _watched(pid: int, stream: SocketStream) -> AsyncIterator[AgentProcess]:
    _supervisors[pid] = stream.extra(SocketAttribute.raw_socket)
    spared.add(pid)
    try:
        yield AgentProcess(pid, stream)
    finally:
        spared.discard(pid)
        del _supervisors[pid]


def end_all_at_once() -> None:
    """End every supervisor and its descendants, outside the event loop, which is abandoned.

    Returns after `SILENCE_SECONDS` at the latest.
    """
    gone = select.poll()
    waiting = set()
    for pid, control in _supervisors.items():
        with suppress(OSError):  # it is gone already
            waiting.add(os.pidfd_open(pid))
        with suppress(OSError):
            control.shutdown(socket.SHUT_RDWR)
    for handle in waiting:
        gone.register(handle, select.POLLIN)
    deadline = time.monotonic() + SILENCE_SECONDS
    while waiting and (left := deadline - time.monotonic()) > 0:
        for handle, _ in gone.poll(left * 1000):
            gone.unregister(handle)
            waiting.discard(handle)


@contextmanager
def launch_errors() -> Iterator[None]:
    """Convert errors such as a full disk or too many open files."""
    try:
        yield
    except OSError as error:
        raise LaunchError(f"an agent cannot be started: {error}") from error


async def _with_room(start: Callable[[], Awaitable[T]]) -> T:
    """Start a process; wait and try again while the machine has no room for one.

    Raises:
        OSError: it cannot be started, or there was no room for `ROOM_SECONDS`.
    """
    deadline, wait = time.monotonic() + ROOM_SECONDS, 0.1
    while True:
        try:
            return await start()
        except (OSError, RuntimeError) as error:
            # asyncio waits for a process in a thread; Python has no class of its own for a failed one
            full = isinstance(error, RuntimeError) and "new thread" in str(error)
            if not full and (isinstance(error, RuntimeError) or error.errno not in NO_ROOM):
                raise
            if time.monotonic() + wait > deadline:
                words = f"the machine had no room for a process for {ROOM_SECONDS:.0f} seconds ({error})"
                raise OSError(
                    f"{words}. Free some, or record fewer episodes at a time with --jobs"
                ) from error
        await anyio.sleep(wait)
        wait = min(2 * wait, 5.0)


async def _start_supervisor(
    stdin: int | IO[bytes], stdout: int | IO[bytes], stderr: Path
) -> tuple[Process, socket.socket]:
    """Return a new supervisor and our end of its control socket."""
    ours, theirs = socket.socketpair()
    try:
        with open_log(stderr) as err, theirs:
            process = await anyio.open_process(
                [INTERPRETER, "-I", "-S", supervisor.__file__, str(theirs.fileno())],
                stdin=stdin,
                stdout=stdout,
                stderr=err,
                pass_fds=[theirs.fileno()],
                env=canaries.environment(),
                start_new_session=True,  # only the referee handles a terminal's Ctrl-C
            )
    except BaseException:
        ours.close()
        raise
    spared.add(process.pid)  # as soon as it is known: another supervisor can be lost just now
    return process, ours
