"""The agent's folder for one episode: private HOME, working directory and shim.

It lies in the system's temporary directory, not under MCP_BENCH_HOME: all of it belongs to the agent, and the
path of a Unix socket is limited to about a hundred characters. One that a killed process left is removed when
the next episode begins.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

import anyio

from mcp_bench.bridge.isolation.uid import UIDS
from mcp_bench.bridge.process.agent import INTERPRETER
from mcp_bench.bridge.wire import shim
from mcp_bench.bridge.wire.remove_folder import remove_folder
from mcp_bench.plugins.agent_folder import hold
from mcp_bench.recorder.paths import SOCKET_PATH_BYTES
from mcp_bench.servers.errors import BenchError
from mcp_bench.servers.left_folders import left, lock

PREFIX = "mcp-bench-ep-"
_open: dict[Path, int] = {}
"""Folders of running episodes, and their descriptors."""


def remove_all() -> None:
    """Remove the folders of all running episodes, because this process ends."""
    for path in list(_open):
        _remove(path)


def _remove(path: Path) -> None:
    held = _open.pop(path, None)
    if held is not None:  # else another thread removes it
        remove_folder(path, held)
        os.close(held)


@cache
def remove_left_once() -> None:
    """Remove, once in this process, the folders of episodes that killed processes left."""
    owners = UIDS if os.geteuid() == 0 else ()
    for path, held in left(PREFIX, owners=owners):
        remove_folder(path, held)


class EpisodeFolder:
    """A folder that is created at once, and removed when the context is left.

    From the agent's start on, nothing below it is used by its path: the agent can put a link in any place.
    `held_home` and `mark_ready` work on descriptors that are open since the creation.
    """

    def __init__(self) -> None:
        """Create the folder.

        Raises:
            BenchError: the temporary directory is not writable, or its path is too long.
        """
        try:
            self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
            _open[self.path] = lock(self.path)
            try:
                self._fill()
            except BaseException:
                _remove(self.path)
                raise
        except OSError as error:
            raise BenchError(
                f"cannot create the folder of an episode: {error}. Set TMPDIR to a writable folder"
            ) from error

    def _fill(self) -> None:
        self.home = self.path / "home"
        self.workdir = self.path / "work"
        self.scratch = self.path / "tmp"
        self.relay = self.path / "mcp"
        for folder in (self.home, self.workdir, self.scratch, self.relay):
            folder.mkdir(mode=0o700)
        if len(os.fsencode(self.socket)) > SOCKET_PATH_BYTES:
            raise BenchError(
                f"the path of the temporary directory is too long for a Unix socket: {self.path.parent}. "
                "Set TMPDIR to a shorter one, such as /tmp"
            )
        self.held_home = hold(self.home)
        """The private HOME, for reading what the agent left in it."""
        self._held_relay = hold(self.relay)
        self.token = secrets.token_urlsafe(24)
        shutil.copyfile(shim.__file__, self.relay / "shim.py")
        (self.relay / "token").write_text(self.token)

    @property
    def socket(self) -> Path:
        return self.relay / "socket"

    @property
    def ready(self) -> Path:
        """File that exists once `mark_ready` was called."""
        return self.relay / "ready"

    def mark_ready(self) -> None:
        """Create the file that shows that the tools were listed. Never overwrite a file of the agent."""
        with suppress(OSError):
            self._held_relay.create(self.ready.name)

    @property
    def server_command(self) -> tuple[str, ...]:
        """Command that the agent starts as its MCP server."""
        return (INTERPRETER, "-I", "-S", str(self.relay / "shim.py"))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    async def __aenter__(self) -> Self:
        await anyio.to_thread.run_sync(remove_left_once)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with anyio.CancelScope(shield=True):  # in a thread: an agent can leave a million files
            await anyio.to_thread.run_sync(self._remove)

    def _remove(self) -> None:
        for folder in (self.held_home, self._held_relay):
            folder.close()
        _remove(self.path)
