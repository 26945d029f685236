"""`landlock`: the kernel refuses the agent all files but those it needs. No privilege is needed.

It has no say about Unix sockets that have a path, and /proc stays: its `environ` and `mem`, and signals, are
refused for processes outside of the sandbox, but their command lines can be read.
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
"""Not /dev/pts, where the operator's terminal is, and not /dev/shm, where other programs' memory is."""


class Landlock:
    name = "landlock"

    def support(self) -> Support:
        return support.landlock()

    def refuses(self, access: Access) -> str:
        return ""

    @contextmanager
    def confined(self, access: Access) -> Iterator[Confinement]:
        read, listed = access.unmasked()
        yield Confinement(rules((*read, *PROC), (*access.write, *DEVICES), listed=listed))


LEVEL: Level = Landlock()
