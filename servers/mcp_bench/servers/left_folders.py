"""Folders that a process holds, and those in the temporary directory that killed processes left.

The owner of a folder holds a lock on it (flock(2)), which the kernel releases when that process ends for any
reason. The next start removes the temporary folders of this user that nobody holds. Standard library only:
this code also runs on other machines.

A kind of folder that had no lock in earlier versions has another prefix now: one of theirs can be in use.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Container, Iterator
from contextlib import contextmanager
from pathlib import Path

FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
SETTLED_SECONDS = 10.0
"""A younger folder may be about to be locked."""


def lock(folder: Path) -> int:
    """Lock a new folder, and return its descriptor: the lock holds until it is closed."""
    held = os.open(folder, FLAGS)
    fcntl.flock(held, fcntl.LOCK_EX)
    return held


class HeldError(Exception):
    """Another process holds a folder."""


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Keep other processes that ask in this way out of a folder, which may be reached by a link.

    Raises:
        HeldError: one of them is in it.
        OSError: it cannot be opened.
    """
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise HeldError(str(folder)) from error
        yield
    finally:
        os.close(held)


def left(prefix: str, parent: Path | None = None, owners: Container[int] = ()) -> Iterator[tuple[Path, int]]:
    """Yield the folders whose owner was killed, each with a descriptor that locks it meanwhile.

    Only folders of this user are touched, and no link is followed.

    Args:
        prefix: how their names begin.
        parent: where to look; default: the temporary directory.
        owners: other users, whose folders count, too.
    """
    for path in sorted((parent or Path(tempfile.gettempdir())).glob(f"{prefix}*")):
        try:
            held = os.open(path, FLAGS)
        except OSError:
            continue  # a link, a file, or gone meanwhile
        try:
            if is_left(held, owners):
                yield path, held
        finally:
            os.close(held)


def is_left(folder: int, owners: Container[int] = ()) -> bool:
    """Return whether a folder is this user's and its owner has ended. If so, lock it."""
    found = os.fstat(folder)
    if (found.st_uid != os.geteuid() and found.st_uid not in owners) or stat.S_IMODE(found.st_mode) & 0o022:
        return False
    if time.time() - found.st_mtime < SETTLED_SECONDS:
        return False
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # it is held, or this file system has no locks
        return False
    return True


def new_folder(prefix: str) -> tuple[Path, int]:
    """Return a new folder with the descriptor that locks it. Remove what killed processes left of its kind.

    It is for folders that no agent can write to.
    """
    for path, _ in left(prefix):
        shutil.rmtree(path, ignore_errors=True)
    made = Path(tempfile.mkdtemp(prefix=prefix))
    return made, lock(made)


@contextmanager
def temporary_folder(prefix: str) -> Iterator[Path]:
    """Yield such a folder, and remove it at the end."""
    folder, held = new_folder(prefix)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(held)
