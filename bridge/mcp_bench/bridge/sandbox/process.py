"""How a process of a sandbox comes to be: its descriptors, and the rights that it gives up. Standard library
only.
"""

import ctypes
import fcntl
import math
import os
import resource
import select
import signal
import struct
from typing import Any

from mcp_bench.bridge.isolation.alone import leave_nothing
from mcp_bench.bridge.isolation.confine import (
    LANDLOCK_CREATE_RULESET,
    LANDLOCK_RESTRICT_SELF,
    NEW_PROCESSES,
    REFUSED,
    allow,
    checked,
    filter_calls,
    filter_code,
    filter_program,
    landlock_version,
    libc,
    restrict,
)
from mcp_bench.bridge.sandbox import kernel

MOST_DESCRIPTORS = 256
"""More than a keeper has open."""
OWN_IPC = frozenset(name for name in REFUSED if name.startswith(("shm", "sem", "msg", "mq_", "ipc")))
"""System calls that an agent is refused, but not a sandbox: they reach its own IPC namespace only."""
MAKE_BLOCK, REFER = 1 << 11, 1 << 13
"""Rights of Landlock: to make a block device, which nothing here can; to move files between folders."""


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
            object, no mark on a file, no connection and, where the kernel has Landlock, no file.
    """
    os.setsid()
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    most = spec["limits"]["processes"]
    resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    kernel.keep_only(kernel.KEPT)
    if alone:
        leave_nothing()
    elif spec["network"]:
        restrict(None, [], [])  # the machine's abstract sockets
    if not alone:
        trace_own_only()
    if spec["limit_cpus"]:
        os.sched_setaffinity(0, processors(spec["limits"]["cpus"], os.getppid()))
    allowed, refused = filtered(spec, alone=alone)
    filter_calls(filter_program(allowed, refused, namespaces=spec["namespaces"]))
    try:
        os.chdir(folder)
    except OSError:
        os.chdir("/")


def filtered(spec: "dict[str, Any]", *, alone: bool = False) -> "tuple[frozenset[str], frozenset[str]]":
    """Return the system calls that a sandbox's process may use besides an agent's, and those it may not."""
    refused = ("sched_setaffinity",) if spec["limit_cpus"] else ()
    return frozenset() if alone else OWN_IPC, frozenset((*refused, *(NEW_PROCESSES if alone else ())))


def filter_file(spec: "dict[str, Any]") -> int:
    """Return a file with the filter of system calls, for bubblewrap's own processes in the sandbox."""
    allowed, refused = filtered(spec)
    program = filter_program(allowed, refused, namespaces=spec["namespaces"])
    made = os.memfd_create("filter")
    os.write(made, filter_code(program))
    os.lseek(made, 0, os.SEEK_SET)
    return made


def trace_own_only() -> None:
    """Forbid to trace what does not descend from this process: bubblewrap's, whose time nobody counts.

    Landlock does that, whatever its rules are. These forbid nothing that works. Its first version could not
    let files move between folders.
    """
    if landlock_version() < 2:
        return
    handled = struct.pack("Q", MAKE_BLOCK | REFER)
    call = libc.syscall
    rules = checked(call(LANDLOCK_CREATE_RULESET, handled, ctypes.c_size_t(len(handled)), 0), "Landlock")
    allow(rules, "/", REFER)
    checked(call(LANDLOCK_RESTRICT_SELF, rules, 0), "Landlock")
    os.close(rules)


def processors(wanted: float, number: int) -> "set[int]":
    """Choose some of this machine's processors; sandboxes with other numbers get other ones."""
    known = sorted(os.sched_getaffinity(0))
    count = min(len(known), max(1, math.ceil(wanted)))
    return {known[(number + place) % len(known)] for place in range(count)}
