"""How a process of a sandbox comes to be: its descriptors, and the rights that it gives up. Standard library
only.
"""

import fcntl
import math
import os
import resource
import select
import signal
from typing import Any

from mcp_bench.bridge.isolation.confine import (
    NEW_PROCESSES,
    REFUSED,
    filter_calls,
    landlock_version,
    restrict,
)
from mcp_bench.bridge.sandbox import kernel

MOST_DESCRIPTORS = 256
"""More than a keeper has open."""
OWN_IPC = frozenset(name for name in REFUSED if name.startswith(("shm", "sem", "msg", "mq_", "ipc")))
"""System calls that an agent is refused, but not a sandbox: they reach its own IPC namespace only."""


def readable(descriptor: int, seconds: float) -> bool:
    return bool(select.select([descriptor], [], [], seconds)[0])


def arrange(wanted: "dict[int, int]") -> None:
    """Give a new program these descriptors, by their number in it, and none besides the first three."""
    ends = {number: fcntl.fcntl(end, fcntl.F_DUPFD, MOST_DESCRIPTORS) for number, end in wanted.items()}
    for number, end in ends.items():
        os.dup2(end, number)
    for number in range(3, MOST_DESCRIPTORS + 2 * len(wanted) + 2):
        if number not in wanted:
            os.closerange(number, number + 1)


def become_command(folder: str, spec: "dict[str, Any]", *, alone: bool = False) -> None:
    """Give up what a process of the sandbox must not have.

    Args:
        alone: the process can start no thread and no other process, and leave nothing to a later one: no IPC
            object and, where the kernel has Landlock, no file.
    """
    os.setsid()
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    most = spec["limits"]["processes"]
    resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    kernel.keep_only(kernel.KEPT)
    if alone and landlock_version() > 0:
        restrict(["/"], ["/dev/null"], [])
    elif spec["network"]:
        restrict(None, [], [])  # the machine's abstract sockets
    if spec["limit_cpus"]:
        os.sched_setaffinity(0, processors(spec["limits"]["cpus"], os.getppid()))
    refused = ("sched_setaffinity",) if spec["limit_cpus"] else ()
    filter_calls(
        frozenset() if alone else OWN_IPC,
        frozenset((*refused, *(NEW_PROCESSES if alone else ()))),
        namespaces=spec["namespaces"],
    )
    try:
        os.chdir(folder)
    except OSError:
        os.chdir("/")


def processors(wanted: float, number: int) -> "set[int]":
    """Choose some of this machine's processors; sandboxes with other numbers get other ones."""
    known = sorted(os.sched_getaffinity(0))
    count = min(len(known), max(1, math.ceil(wanted)))
    return {known[(number + place) % len(known)] for place in range(count)}
