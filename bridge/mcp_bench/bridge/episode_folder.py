"""The folder an agent lives in for one episode: private HOME, working directory, and its relay.

It lies in the system's temporary directory, not under MCP_BENCH_HOME: all of it belongs to the
agent, and the path of a Unix socket has room for about a hundred characters only.
"""

from __future__ import annotations

import secrets
import shutil
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from mcp_bench.bridge import shim
from mcp_bench.bridge.agent_process import INTERPRETER


class EpisodeFolder:
    """Made on construction, removed on leaving the context."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="mcp-bench-"))
        self.home = self.path / "home"
        self.workdir = self.path / "work"
        self.scratch = self.path / "tmp"
        self.relay = self.path / "mcp"
        for folder in (self.home, self.workdir, self.scratch, self.relay):
            folder.mkdir(mode=0o700)
        self.token = secrets.token_urlsafe(24)
        shutil.copyfile(shim.__file__, self.relay / "shim.py")
        (self.relay / "token").write_text(self.token)

    @property
    def socket(self) -> Path:
        return self.relay / "socket"

    @property
    def server_command(self) -> tuple[str, ...]:
        """What the agent starts as its MCP server."""
        return (INTERPRETER, "-I", "-S", str(self.relay / "shim.py"))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
