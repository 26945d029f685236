"""What a task needs of the machine, by name: `Task.needs`.

`program:NAME` is a program on PATH (`program:java`), `memory:GIB` is that much memory, `gpu` is a GPU.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

GPUS = ("/dev/nvidiactl", "/dev/kfd")


def unmet(needs: Iterable[str]) -> list[str]:
    """Return why a task with these needs cannot run on this machine: one reason per need that it lacks."""
    return [reason for need in needs if (reason := missing(need)) is not None]


def missing(need: str) -> str | None:
    """Return why this machine lacks what a task needs, or None if it has it."""
    kind, _, value = need.partition(":")
    match kind:
        case "program" if value:
            return None if shutil.which(value) else f"there is no program {value!r} on PATH"
        case "memory" if value.isdigit():
            here = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
            return (
                None if here >= int(value) else f"it needs {value} GiB of memory; this machine has {here:.0f}"
            )
        case "gpu":
            return None if any(Path(gpu).exists() for gpu in GPUS) else "there is no GPU"
    return f"it needs {need!r}, which this version of mcp-bench does not know"
