"""Open the files for an agent's output so that the agent does not learn where they are."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from pathlib import Path
from typing import IO

SYS_OPEN_TREE = 428
"""The same number on every architecture except Alpha."""
OPEN_TREE_CLONE = 1
AT_FDCWD = -100
APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC

_libc = ctypes.CDLL(None, use_errno=True)


def open_log(path: Path) -> IO[bytes]:
    """Open a file for appending. For root, `/proc/self/fd` does not show the folder that it is in.

    The kernel shows a path from the root of its mount. Here that is a mount of the folder alone, which is
    attached nowhere (open_tree(2), Linux 5.2). It takes CAP_SYS_ADMIN; without that, the path is shown.

    Raises:
        OSError: the file cannot be opened.
    """
    flags = ctypes.c_uint(OPEN_TREE_CLONE | os.O_CLOEXEC)
    folder: int = _libc.syscall(SYS_OPEN_TREE, AT_FDCWD, os.fsencode(path.parent), flags)
    if folder >= 0:
        try:
            with suppress(OSError):
                return os.fdopen(os.open(path.name, APPEND, 0o666, dir_fd=folder), "ab")
        finally:
            os.close(folder)
    return path.open("ab")
