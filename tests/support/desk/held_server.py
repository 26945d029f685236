"""An MCP server that starts only when the test allows it, to see what an agent does in the meantime."""

from __future__ import annotations

import os
import select
from dataclasses import replace
from pathlib import Path

from mcp_bench.plugins.contracts import McpServer

SECONDS = 150


class HeldServer:
    """A server that waits before it starts. The agent is configured with `entry`."""

    def __init__(self, server: McpServer, folder: Path) -> None:
        started, go = folder / "started", folder / "go"
        for path in (started, go):
            os.mkfifo(path)
        # Opened for reading and writing, a pipe neither blocks nor breaks, whichever side opens it first.
        self._started, self._go = os.open(started, os.O_RDWR), os.open(go, os.O_RDWR)
        script = f'echo > "{started}"; read -r line < "{go}"; exec "$@"'
        self.entry = replace(server, command=("/bin/sh", "-c", script, "held", *server.command))

    def wait_until_started(self) -> bool:
        ready, _, _ = select.select([self._started], [], [], SECONDS)
        return bool(ready)

    def let_go(self) -> None:
        os.write(self._go, b"\n" * 100)  # an agent may start it more than once

    def close(self) -> None:
        os.close(self._started)
        os.close(self._go)
