"""The referee's handle on one agent: started, waited for, and ended through its supervisor."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile

import anyio
from anyio.abc import Process, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

from mcp_bench.bridge import supervisor
from mcp_bench.bridge.orphans import end_orphans, start_ticks
from mcp_bench.servers.errors import BenchError

INTERPRETER = os.path.realpath(sys.executable)
"""Python outside any virtual environment: shim and supervisor need the standard library alone."""

_supervisors: set[int] = set()
"""Process ids of all live supervisors of this referee."""


class LaunchError(BenchError):
    """The agent could not be started at all."""


class AgentProcess:
    """A launched agent. `exit_code` is negative for a signal, and None while it runs."""

    def __init__(self, supervisor_pid: int, control: SocketStream) -> None:
        self.supervisor_pid = supervisor_pid
        self.exit_code: int | None = None
        self._started = start_ticks(supervisor_pid)
        self._control = control
        self._replies = BufferedByteReceiveStream(control)

    async def launch(self, argv: Sequence[str], env: Mapping[str, str], cwd: Path) -> None:
        """Start the agent.

        Raises:
            LaunchError: the program could not be run; the text says why.
        """
        await self._tell({"argv": list(argv), "env": dict(env), "cwd": str(cwd)})
        reply = await self._reply()
        if "started" not in reply:
            raise LaunchError(f"the agent could not be started: {reply.get('failed', 'its supervisor died')}")

    async def wait(self) -> int:
        """Return the exit code once the launched process (not what it left behind) has ended."""
        while self.exit_code is None:
            self._note_exit(await self._reply())
        return self.exit_code

    async def stop(self, grace: float) -> None:
        """Ask the agent to end; it is killed `grace` seconds later. `wait` for it."""
        await self._tell({"stop": grace})

    async def end(self) -> None:
        """Kill whatever is left, and return when all of it is gone."""
        await self._tell({"end": True})
        while True:
            reply = await self._reply()
            self._note_exit(reply)
            if "lost" in reply:  # somebody killed the supervisor, so its orphans are ours now
                spare = _supervisors - {self.supervisor_pid}
                await anyio.to_thread.run_sync(end_orphans, self._started, spare)
                return
            if "ended" in reply:
                return

    def _note_exit(self, reply: dict[str, object]) -> None:
        code = reply.get("exited")
        if self.exit_code is None and isinstance(code, int):
            self.exit_code = code

    async def _tell(self, message: dict[str, object]) -> None:
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
async def agent_process(stdin: bytes, stdout: Path, stderr: Path) -> AsyncIterator[AgentProcess]:
    """Start a supervisor for one agent; on leaving, all that the agent started is gone.

    `stdin` reaches the agent through a file without a name: nobody else can read it, and nothing
    waits for the agent to read.

    Raises:
        LaunchError: its supervisor could not be started.
    """
    process, ours = await start_supervisor(stdin, stdout, stderr)
    async with await SocketStream.from_socket(ours) as control, process:
        agent = AgentProcess(process.pid, control)
        _supervisors.add(process.pid)
        try:
            yield agent
        finally:
            with anyio.CancelScope(shield=True):
                await agent.end()
                await process.wait()
            _supervisors.discard(process.pid)


async def start_supervisor(stdin: bytes, stdout: Path, stderr: Path) -> tuple[Process, socket.socket]:
    """Return a new supervisor, and our end of its control socket.

    Raises:
        LaunchError: no room on the disk, too many open files, ...
    """
    try:
        ours, theirs = socket.socketpair()
        try:
            with TemporaryFile() as feed, stdout.open("ab") as out, stderr.open("ab") as err, theirs:
                feed.write(stdin)
                feed.seek(0)
                process = await anyio.open_process(
                    [INTERPRETER, "-I", "-S", supervisor.__file__, str(theirs.fileno())],
                    stdin=feed,
                    stdout=out,
                    stderr=err,
                    pass_fds=[theirs.fileno()],
                    env={},
                    start_new_session=True,  # a terminal's Ctrl-C is the referee's business
                )
        except BaseException:
            ours.close()
            raise
    except OSError as error:
        raise LaunchError(f"an agent cannot be started: {error}") from error
    return process, ours
