"""`landlock`: the kernel blocks all files except those that the agent needs. Needs no privilege.

It does not cover Unix sockets with a path. /proc stays visible: `environ`, `mem` and signals are blocked for
processes outside the sandbox, but their command lines are readable, unless root starts the agent.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mcp_bench.bridge.isolation import support
from mcp_bench.bridge.isolation.level import Access, Confinement, Level, rules
from mcp_bench.bridge.isolation.support import Support

PROC = (Path("/proc"),)
DEVICES = tuple(Path("/dev", name) for name in ("null", "zero", "full", "random", "urandom", "tty", "ptmx"))
"""Without /dev/pts (the operator's terminal) and /dev/shm (other programs' memory)."""


class Landlock:
    name = "landlock"

    def support(self) -> Support:
        return support.landlock()

    def refuses(self, access: Access) -> str:
        return ""

    @contextmanager
    def confined(self, access: Access) -> Iterator[Confinement]:
        read, listed = access.unmasked()
        yield Confinement(
            rules((*read, *PROC), (*access.write, *DEVICES), listed=listed, hidden=access.hidden)
        )


LEVEL: Level = Landlock()
