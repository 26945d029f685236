"""Control groups for one sandbox, where this user may make them: exact limits of memory and processors.

Version 2: https://docs.kernel.org/admin-guide/cgroup-v2.html; version 1: cgroups(7). Elsewhere the keeper
measures.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

ROOT = Path("/sys/fs/cgroup")
OURS = "mcp-bench"
PERIOD_US = 100_000


class Shares(Protocol):
    """What is limited; see `mcp_bench.servers.sandbox.SandboxLimits`."""

    @property
    def cpus(self) -> float: ...

    @property
    def memory(self) -> int: ...


@dataclass(frozen=True)
class Groups:
    folders: tuple[Path, ...] = ()
    memory: bool = False
    cpus: bool = False


@contextmanager
def groups(name: str, limits: Shares) -> Iterator[Groups]:
    """Make the groups of one sandbox, and remove them at the end, when it has no process any more.

    Args:
        name: A name that no other sandbox on this machine has.
    """
    unified = (ROOT / "cgroup.controllers").exists()
    made = _made(name, limits, unified=unified) if os.access(ROOT, os.W_OK) or not unified else Groups()
    try:
        yield made
    finally:
        for folder in made.folders:
            with suppress(OSError):
                folder.rmdir()


def _made(name: str, limits: Shares, *, unified: bool) -> Groups:
    quota = max(1000, round(limits.cpus * PERIOD_US))
    if unified:
        parent = ROOT / OURS
        folder = _group(
            parent,
            name,
            {"memory.max": f"{limits.memory}", "cpu.max": f"{quota} {PERIOD_US}"},
            "+memory +cpu",
        )
        if folder is None:
            return Groups()
        with suppress(OSError):
            (folder / "memory.swap.max").write_text("0")
        return Groups((folder,), memory=True, cpus=True)
    memory = _group(_own("memory"), name, {"memory.limit_in_bytes": f"{limits.memory}"})
    if memory is not None:
        with suppress(OSError):
            (memory / "memory.memsw.limit_in_bytes").write_text(f"{limits.memory}")
    cpus = _group(_own("cpu"), name, {"cpu.cfs_period_us": f"{PERIOD_US}", "cpu.cfs_quota_us": f"{quota}"})
    folders = tuple(folder for folder in (memory, cpus) if folder is not None)
    return Groups(folders, memory is not None, cpus is not None)


def _own(controller: str) -> Path:
    """Return the parent of our groups in version 1. It is below our own group, whose limits count too."""
    with suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, names, path = line.split(":", 2)
            if controller in names.split(","):
                return ROOT / controller / path.lstrip("/") / OURS
    return ROOT / controller / OURS


def _group(parent: Path, name: str, values: dict[str, str], controllers: str = "") -> Path | None:
    """Make a group with these limits; return None where that does not work."""
    folder = parent / name
    try:
        if controllers:
            for above in (parent.parent, parent):
                above.mkdir(exist_ok=True)
                (above / "cgroup.subtree_control").write_text(controllers)
        elif not parent.parent.is_dir():
            return None  # no such controller
        parent.mkdir(exist_ok=True)
        _forget_dead(parent)
        folder.mkdir(exist_ok=True)
        for file, value in values.items():
            (folder / file).write_text(value)
    except OSError:
        with suppress(OSError):
            folder.rmdir()
        return None
    return folder


def _forget_dead(parent: Path) -> None:
    """Remove the empty groups of processes that were killed: a name is `PID-...`."""
    for folder in parent.iterdir():
        if folder.is_dir() and not Path("/proc", folder.name.partition("-")[0]).exists():
            with suppress(OSError):
                folder.rmdir()
