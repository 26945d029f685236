"""Protect a process that holds answers or grades: only root can inspect it, and it writes no core file."""

from __future__ import annotations

import ctypes
import os
import resource

PR_SET_DUMPABLE = 4


def harden() -> None:
    """Hide this process's memory, environment and open files from its user's other processes and debuggers.

    Uses PR_SET_DUMPABLE (prctl(2)). The process never dumps core. Programs that it starts can be inspected
    again, but write no core files either. The kernel then assigns most of the process's own `/proc` to root:
    the process can still read its open files and the world-readable entries there.

    Raises:
        OSError: the kernel refused.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0):
        raise OSError(ctypes.get_errno(), f"prctl(PR_SET_DUMPABLE): {os.strerror(ctypes.get_errno())}")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
