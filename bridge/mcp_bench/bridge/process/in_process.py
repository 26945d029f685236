"""One of our own clients as a part of this process: no fork, no supervisor and no shim for each episode.

It is the same client with the same wire, and has no tools besides the world's. See `Capabilities.in_process`.
"""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import IO

import anyio
from anyio.abc import TaskGroup

from mcp_bench.bridge.process.agent import launch_errors
from mcp_bench.bridge.process.log_file import open_log
from mcp_bench.clients.config import SocketEntry
from mcp_bench.plugins.contracts import Launch


class InProcessAgent:
    """A client that runs as a task. It has what `AgentProcess` has."""

    over = ""
    left = 0

    def __init__(self, tasks: TaskGroup, serve: Callable[[Mapping[str, str]], Awaitable[int]]) -> None:
        self.supervisor_pid = os.getpid()
        """Its connections are those of this process."""
        self.exit_code: int | None = None
        self._tasks, self._serve = tasks, serve
        self._scope, self._done = anyio.CancelScope(), anyio.Event()

    async def launch(self, argv: Sequence[str], env: Mapping[str, str], cwd: Path, **_: object) -> None:
        """Start it. Of what `AgentProcess.launch` takes, only the environment has a meaning here."""
        self._tasks.start_soon(self._run, env)

    async def _run(self, environ: Mapping[str, str]) -> None:
        try:
            with self._scope:
                self.exit_code = await self._serve(environ)
        finally:
            if self.exit_code is None:
                self.exit_code = -int(signal.SIGTERM)
            self._done.set()

    async def wait(self) -> int:
        """Wait until it has ended, and return its exit code."""
        await self._done.wait()
        assert self.exit_code is not None  # noqa: S101 - set before the event
        return self.exit_code

    async def stop(self, grace: float) -> None:
        """End it. It has nothing to clean up, so there is no grace."""
        self._scope.cancel()


@asynccontextmanager
async def agent_in_process(
    launch: Launch, stdout: Path, stderr: Path, server: SocketEntry
) -> AsyncIterator[InProcessAgent]:
    """Yield a client that can be started. On exit, it has ended.

    Args:
        launch: of the client as a process.
        stdout: gets its events.
        stderr: gets its complaints.
        server: where its MCP server is.

    Raises:
        LaunchError: its logs cannot be opened.
    """
    assert launch.warm_start is not None  # noqa: S101 - such clients are modules
    serve = import_module(launch.warm_start.modules[0]).serve
    with launch_errors(), open_log(stdout) as out, open_log(stderr) as err:
        words = launch.warm_start.arguments
        given = partial(_served, serve, words, server, launch.stdin.decode(), out, err)
        async with anyio.create_task_group() as tasks:
            yield InProcessAgent(tasks, given)
            tasks.cancel_scope.cancel()


async def _served(
    serve: Callable[..., Awaitable[int]],
    words: tuple[str, ...],
    server: SocketEntry,
    prompt: str,
    out: IO[bytes],
    err: IO[bytes],
    environ: Mapping[str, str],
) -> int:
    """Return the exit code of a client; a bug in it is that of a crash, as in a process of its own."""

    def write(log: IO[bytes], text: str) -> None:
        log.write(text.encode())
        log.flush()

    try:
        return await serve(words, server, prompt, environ, partial(write, out), partial(write, err))
    except SystemExit as error:  # a wrong command line
        return error.code if isinstance(error.code, int) else 2
    except Exception:
        write(err, traceback.format_exc())
        return 1
