"""End the orphans of an agent whose supervisor was killed. They become children of the referee."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from mcp_bench.bridge.process.supervisor import become_subreaper, descendants, parents

adopt_orphans = become_subreaper
"""Make this process the parent of orphans of a killed supervisor. Call it once, before launches."""


spared: set[int] = set()
"""Children of this process that are not orphans: supervisors and fork servers."""


def start_ticks(pid: int) -> int:
    """Return when a process started, in clock ticks since boot (proc(5), field 22); 0 if it is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[19])
    except (OSError, IndexError):
        return 0


def end_orphans(since: int) -> None:
    """Kill and reap the orphans among the children of this process that started at `since` ticks or later.

    A child that started before the dead supervisor (a benchmark's worker) cannot have come from it.
    """
    while True:
        mine = [pid for pid, parent in parents().items() if parent == os.getpid()]
        orphans = [pid for pid in mine if pid not in spared and start_ticks(pid) >= since]
        if not orphans:
            return
        for orphan in orphans:
            for pid in (*descendants(orphan), orphan):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            try:
                os.waitpid(orphan, 0)
            except ChildProcessError:
                continue
