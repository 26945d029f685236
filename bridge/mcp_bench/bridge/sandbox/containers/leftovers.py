"""Containers that killed referees left. Their processes have ended; their files have not."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from mcp_bench.bridge.process.orphans import start_ticks
from mcp_bench.bridge.sandbox.containers.program import Program, call

LABEL = "mcp-bench.owner"


def owner(pid: int | None = None) -> str:
    """Return what names a process: machine, namespace of processes, number and start."""
    pid = os.getpid() if pid is None else pid
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return f"{boot}/{Path('/proc/self/ns/pid').readlink()}/{pid}/{start_ticks(pid)}"


@cache
def remove_leftovers_once(program: Program) -> None:
    """Remove, once in this process, what killed ones left."""
    remove_leftovers(program)


def remove_leftovers(program: Program) -> list[str]:
    """Remove the containers whose owner has ended, and return their ids."""
    found = call(program, "ps", "--all", "--quiet", "--no-trunc", f"--filter=label={LABEL}").stdout.split()
    if not found:
        return []
    shown = f'{{{{.Id}}}} {{{{index .Config.Labels "{LABEL}"}}}}'
    listed = call(program, "inspect", "--format", shown, *(identity.decode() for identity in found))
    removed = []
    for line in listed.stdout.decode(errors="replace").splitlines():
        identity, _, whose = line.partition(" ")
        if has_ended(whose) and call(program, "rm", "--force", identity).returncode == 0:
            removed.append(identity)
    return removed


def has_ended(whose: str) -> bool:
    """Return whether it was a process that could be seen here, and has ended."""
    place, _, ticks = whose.rpartition("/")
    number = place.rpartition("/")[2]
    if not number.isdigit():
        return False
    here = owner(int(number))
    return here.rpartition("/")[0] == place and here.rpartition("/")[2] != ticks
