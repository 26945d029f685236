"""Remove a folder that an agent filled, without following its links.

shutil.rmtree follows no links either, but it needs a descriptor and a stack frame for each level, so that an
agent can stop it with a deep path. Here every folder is moved to the top before it is emptied.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_folder(path: Path, held: int) -> None:
    """Remove everything in a folder, then the folder. What cannot be removed stays.

    Args:
        path: The folder. The agent can have moved it away.
        held: Descriptor of the folder (O_PATH is enough).
    """
    with suppress(OSError):
        top = _opened(".", held)
        try:
            _empty_all(top)
        finally:
            os.close(top)
    with suppress(OSError):
        if os.path.samestat(path.lstat(), os.fstat(held)):
            path.rmdir()


def _empty_all(top: int) -> None:
    number = 0
    kept: set[str] = set()
    while folders := [name for name in _unlink_files(top) if name not in kept]:
        for name in folders:
            try:
                below = _opened(name, top)
                try:
                    for inner in _unlink_files(below):
                        number = _free(top, number)
                        _moveable(inner, below)
                        os.rename(inner, f"{number}", src_dir_fd=below, dst_dir_fd=top)
                finally:
                    os.close(below)
                os.rmdir(name, dir_fd=top)
            except OSError:
                kept.add(name)  # a mount, or a process adds to it: it stays


def _free(top: int, number: int) -> int:
    """Return the next number that is no name in the folder."""
    while True:
        number += 1
        try:
            os.stat(f"{number}", dir_fd=top, follow_symlinks=False)
        except FileNotFoundError:
            return number


def _unlink_files(folder: int) -> list[str]:
    """Remove all that is not a folder; return the names of the folders."""
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                found.append(entry.name)
                continue
            with suppress(OSError):
                os.unlink(entry.name, dir_fd=folder)
    return found


def _opened(name: str, folder: int) -> int:
    """Open a folder, with all rights to it if its owner has taken them away."""
    with suppress(PermissionError):
        found = os.open(name, FLAGS, dir_fd=folder)
        if os.fstat(found).st_mode & stat.S_IRWXU == stat.S_IRWXU:
            return found
        os.close(found)
    _moveable(name, folder)
    return os.open(name, FLAGS, dir_fd=folder)


def _moveable(name: str, folder: int) -> None:
    """Give the owner all rights to a folder: without them, it cannot be moved."""
    place = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        os.chmod(f"/proc/self/fd/{place}", 0o700)  # noqa: PTH101 - chmod(2) does not take O_PATH
    finally:
        os.close(place)
