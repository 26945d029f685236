"""End the orphans of an agent whose supervisor was killed. They become children of the referee."""

from __future__ import annotations

import os
from pathlib import Path

from mcp_bench.bridge.process.descendants import become_subreaper, end_children, own_children, parents
from mcp_bench.servers.remote.process import workers

adopt_orphans = become_subreaper
"""Make this process the parent of orphans of a killed supervisor. Call it once, before launches."""


spared: set[int] = set()
"""Children of this process in sessions of their own that are not orphans: supervisors and fork servers."""


def start_ticks(pid: int) -> int:
    """Return when a process started, in clock ticks since boot (proc(5), field 22); 0 if it is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[19])
    except (OSError, IndexError):
        return 0


def beside(pid: int) -> bool:
    """Return whether a child is in the session of this process."""
    try:
        return os.getsid(pid) == os.getsid(0)
    except OSError:  # it is gone
        return False


def end_orphans(since: int) -> int:
    """Kill and reap the orphans among the children of this process that started at `since` ticks or later.

    A child that started before the dead supervisor cannot have come from it. Nor can one in the session of
    this process: supervisors have their own, and no process can go back.

    Returns:
        The number of processes that are left after `descendants.END_SECONDS`.
    """

    def orphans(among: list[int]) -> list[int]:
        kept = {*spared, *workers}
        return [pid for pid in among if pid not in kept and start_ticks(pid) >= since and not beside(pid)]

    def found() -> list[int]:
        own = os.getpid()
        return orphans(own_children()) or orphans([pid for pid, above in parents().items() if above == own])

    return end_children(found)
