"""The folder of one sandbox, and those that killed referees left.

Its owner holds a lock on it (flock(2)), which the kernel releases when that process ends for any reason. The
next start removes the folders of this user that nobody holds.
"""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from mcp_bench.bridge.wire.remove_folder import remove_folder
from mcp_bench.servers.errors import SandboxError

PREFIX = "mcp-bench-box-"
"""Earlier versions, which hold no lock, had another one: a folder of theirs can be in use."""
SETTLED_SECONDS = 10.0
"""A younger folder may be about to be locked."""
FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def state_folder(uid: int | None) -> Iterator[Path]:
    """Yield a new folder with a folder `state` for the sandbox's files, which belongs to its user."""
    try:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        held = os.open(folder, FLAGS)
        fcntl.flock(held, fcntl.LOCK_EX)
        folder.chmod(0o711)
        state = folder / "state"
        state.mkdir(mode=0o700)
        if uid is not None:
            os.chown(state, uid, uid)
    except OSError as error:
        raise SandboxError(
            f"cannot create the folder of a sandbox: {error}. Set TMPDIR to a writable folder"
        ) from error
    try:
        yield folder
    finally:
        remove_folder(folder, held)
        os.close(held)


@cache
def remove_leftovers_once() -> None:
    """Remove, once in this process, what killed ones left."""
    remove_leftovers()


def remove_leftovers(parent: Path | None = None) -> list[Path]:
    """Remove the folders of sandboxes whose owner was killed, and return them.

    Only folders of this user are touched, and no link is followed. What belongs to users that only the
    sandbox's user namespace had (subuid(5)) stays where this process is not root.

    Args:
        parent: where to look; default: the temporary directory.
    """
    removed = []
    for path in sorted((parent or Path(tempfile.gettempdir())).glob(f"{PREFIX}*")):
        try:
            held = os.open(path, FLAGS)
        except OSError:
            continue  # a link, a file, or gone meanwhile
        try:
            if is_left(held):
                remove_folder(path, held)
                removed += [] if path.exists() else [path]
        finally:
            os.close(held)
    return removed


def is_left(folder: int) -> bool:
    """Return whether a sandbox's folder is this user's and its owner has ended. If so, lock it."""
    found = os.fstat(folder)
    if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o022:
        return False
    if time.time() - found.st_mtime < SETTLED_SECONDS:
        return False
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # it is held, or this file system has no locks
        return False
    return True
