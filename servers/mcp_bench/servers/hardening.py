"""A process that nobody but root may look into, and that leaves no core file."""

from __future__ import annotations

import ctypes
import os
import resource

PR_SET_DUMPABLE = 4


def harden() -> None:
    """Close this process's memory, environment and open files to other processes of its user, and to
    debuggers (prctl(2), PR_SET_DUMPABLE). It never dumps core; programs that it starts may be looked into
    again, but leave no core files either.

    For those who hold answers or grades. The kernel gives most of their own `/proc` to root then: what such a
    process reads of itself there must be world-readable, or its open files.

    Raises:
        OSError: the kernel refused.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0):
        raise OSError(ctypes.get_errno(), f"prctl(PR_SET_DUMPABLE): {os.strerror(ctypes.get_errno())}")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
