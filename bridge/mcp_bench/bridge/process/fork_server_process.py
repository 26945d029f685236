"""The referee's handle on a fork server (fork_server.py), which starts supervisors with imported clients."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import IO, ClassVar, Protocol, Self

import anyio
from anyio.abc import SocketStream

from mcp_bench.bridge.process import fork_server
from mcp_bench.bridge.process.orphans import spared
from mcp_bench.plugins.contracts import WarmStart
from mcp_bench.plugins.own_clients.environment import PYTHON
from mcp_bench.servers.errors import BenchError

Fork = Callable[[IO[bytes], IO[bytes], IO[bytes]], Awaitable[tuple[int, int, SocketStream]]]
"""Takes the agent's stdin, stdout and stderr; returns the new supervisor's process id and pidfd, and our end
of its control socket."""


class ForkServerLostError(BenchError):
    """A fork server exited, or could not import its modules."""


class ServerProcess(Protocol):
    """A started fork server: a child of this process."""

    @property
    def pid(self) -> int: ...

    def kill(self) -> None: ...

    def wait(self) -> int: ...


def spawn(requests: socket.socket, arguments: Sequence[str]) -> ServerProcess:
    """Start a fork server that reads from this socket; `arguments` are a folder and modules in it."""
    return subprocess.Popen(  # not asyncio's: a kept one outlives the event loop
        [PYTHON, "-I", "-S", fork_server.__file__, str(requests.fileno()), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,  # a client that is started normally reports import errors
        pass_fds=[requests.fileno()],
        env={"LANG": "C.UTF-8"},  # forks can see the server's initial environment
        start_new_session=True,
    )


class ForkServer:
    """Starts the process with the first supervisor, and ends it on leaving the context."""

    spawn: ClassVar[Callable[[socket.socket, Sequence[str]], ServerProcess]] = staticmethod(spawn)
    """Starts the process. A program that has the modules already can set another way."""
    kept: ClassVar[ForkServer | None] = None
    """Set by a process that records run after run: all of them use this one, which ends with the process."""

    def __init__(self) -> None:
        self._warm_start: WarmStart | None = None
        self._process: ServerProcess | None = None
        self._requests: socket.socket | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self is not ForkServer.kept:
            with anyio.CancelScope(shield=True):
                await self._end()

    def fork(self, warm_start: WarmStart | None) -> Fork | None:
        """Return a function that forks supervisors with these modules; None if this server has others."""
        if warm_start is None:
            return None
        mine = self._warm_start or warm_start  # all launches of a run use the same modules
        same = (mine.folder, mine.modules) == (warm_start.folder, warm_start.modules)
        return partial(self._supervisor, warm_start) if same else None

    async def _supervisor(
        self, warm_start: WarmStart, stdin: IO[bytes], stdout: IO[bytes], stderr: IO[bytes]
    ) -> tuple[int, int, SocketStream]:
        """Fork a supervisor.

        Raises:
            ForkServerLostError: the server is gone. The next call starts another one.
        """
        ours, theirs = socket.socketpair()
        stream = await SocketStream.from_socket(ours)
        try:
            with theirs:
                requests = self._requests or self._start(warm_start)
                files = [file.fileno() for file in (stdin, stdout, stderr)]
                socket.send_fds(requests, [b"+"], [*files, theirs.fileno()])
            pid = json.loads(await stream.receive())["supervisor"]
            return pid, os.pidfd_open(pid), stream
        except (OSError, anyio.EndOfStream, anyio.BrokenResourceError) as error:
            await stream.aclose()
            await self._end()
            raise ForkServerLostError(f"the fork server of {warm_start.modules[0]} is gone") from error
        except BaseException:
            await stream.aclose()
            raise

    def _start(self, warm_start: WarmStart) -> socket.socket:
        ours, theirs = socket.socketpair()
        self._warm_start, self._requests = warm_start, ours
        with theirs:
            self._process = type(self).spawn(theirs, (str(warm_start.folder), *warm_start.modules))
        spared.add(self._process.pid)
        return ours

    async def _end(self) -> None:
        requests, process = self._requests, self._process
        self._requests = self._process = None
        if requests is not None:
            requests.close()  # this ends it, even during imports
        if process is not None:
            with suppress(ProcessLookupError):
                process.kill()
            await anyio.to_thread.run_sync(process.wait)
            spared.discard(process.pid)
