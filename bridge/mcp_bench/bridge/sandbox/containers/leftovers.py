"""Containers that killed referees left. Their processes have ended; their files have not."""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path

from mcp_bench.bridge.process.orphans import start_ticks
from mcp_bench.bridge.sandbox.containers.program import Program, call

LABEL = "mcp-bench.owner"
_OWNED = re.compile(rf"^([0-9a-f]+) .*\b{re.escape(LABEL)}[:=]([^\s,]+/[0-9]+/[0-9]+)", re.MULTILINE)
"""An id and an owner in a list: podman shows labels as `map[NAME:VALUE ...]`, docker as `NAME=VALUE,...`."""


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
    shown = "--format={{.ID}} {{.Labels}}"  # `inspect` fails for all if one has been removed only in part
    listed = call(program, "ps", "--all", "--no-trunc", f"--filter=label={LABEL}", shown)
    removed = []
    for identity, whose in _OWNED.findall(listed.stdout.decode(errors="replace")):
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
