"""A folder that an agent can write, held open: below it, no link is followed and only its files are read.

The referee can be root, and an agent may put a link, a pipe or another user's file where the referee expects
a file of the agent. So everything is opened relative to a descriptor of the folder, which no rename changes,
by openat2(2) without links. Before Linux 5.6, a path is opened one folder at a time.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from mcp_bench.plugins.text_files import objects

SYS_OPENAT2 = 437
"""The same number on every architecture except Alpha."""
RESOLVE = 0x01 | 0x02 | 0x04 | 0x08
"""RESOLVE_NO_XDEV, _NO_MAGICLINKS, _NO_SYMLINKS and _BENEATH (linux/openat2.h)."""
NO_OPENAT2 = (errno.ENOSYS, errno.EPERM)
"""The kernel does not have it, or a container's filter refuses it."""
FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC

FILE_BYTES = 256 << 20
"""Larger files are refused, and `lines` ends after so many bytes of all its files."""
NAMES = 10_000
"""Further names of a folder, and further matches of a pattern, are ignored."""

_libc = ctypes.CDLL(None, use_errno=True)


class AgentFolder:
    """A place below a held folder. It need not exist: what is missing raises FileNotFoundError."""

    def __init__(self, held: Held, parts: tuple[str, ...] = ()) -> None:
        """Refer to a place below `held`. Use `hold` for a folder by its path."""
        self._held = held
        self._parts = parts

    def below(self, name: str | Path) -> AgentFolder:
        """Return a place below this one."""
        return AgentFolder(self._held, (*self._parts, *str(name).split("/")))

    def close(self) -> None:
        """Release the held folder. Afterwards nothing is found below it."""
        self._held.close()

    @contextmanager
    def open(self, name: str | Path, *, limit: int = FILE_BYTES) -> Iterator[BinaryIO]:
        """Open a regular file for reading.

        Raises:
            OSError: it is missing, is not a regular file, has more than `limit` bytes, is a link or below
                one; or it has another name or another owner, so it need not be a file that the agent wrote.
        """
        place = self._open(name, os.O_PATH)
        try:
            self._held.check(os.fstat(place), str(name), limit)
            # only now: opening a pipe or a device can have effects
            readable = os.open(f"/proc/self/fd/{place}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        finally:
            os.close(place)
        with os.fdopen(readable, "rb") as file:
            yield file

    def read(self, name: str | Path, *, limit: int = FILE_BYTES) -> bytes:
        """Return the content of a regular file.

        Raises:
            OSError: as for `open`.
        """
        with self.open(name, limit=limit) as file:
            return file.read(limit)

    def lines(self, pattern: str) -> Iterator[dict[str, Any]]:
        """Yield the JSON objects, one per line, of all files that match, in the order of their names.

        Files that cannot be opened are skipped, and so is everything after `FILE_BYTES` bytes.
        """
        left = FILE_BYTES
        for name in self.find(pattern):
            with suppress(OSError), self.open(name, limit=left) as file:
                left -= os.fstat(file.fileno()).st_size
                yield from objects(file)

    def find(self, pattern: str) -> list[str]:
        """Return the sorted paths that match a pattern, in which `*` stands for any part of one name.

        What follows the last name with a `*` may not exist.
        """
        found = [""]
        for part in pattern.split("/"):
            if "*" in part:
                names = (f"{at}{name}/" for at in found for name in self.names(at) if fnmatchcase(name, part))
                found = list(islice(names, NAMES))
            else:
                found = [f"{at}{part}/" for at in found]
        return sorted(path.rstrip("/") for path in found)

    def names(self, name: str | Path = "") -> list[str]:
        """Return the names in a folder; none if it cannot be opened."""
        with suppress(OSError):
            folder = self._open(name, os.O_RDONLY | os.O_DIRECTORY)
            try:
                with os.scandir(folder) as entries:
                    return [entry.name for entry in islice(entries, NAMES)]
            finally:
                os.close(folder)
        return []

    def create(self, name: str, mode: int = 0o600) -> None:
        """Create an empty file.

        Raises:
            OSError: the name exists, as a file or as a link, or the folder is gone.
        """
        os.close(self._open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode))

    def _open(self, name: str | Path, flags: int, mode: int = 0) -> int:
        parts = [part for part in (*self._parts, *str(name).split("/")) if part not in ("", ".")]
        return self._held.open(parts, flags | os.O_CLOEXEC, mode)


class Held:
    """A descriptor of a folder, or of nothing."""

    def __init__(self, path: str | Path, *, trusted: bool) -> None:
        self._trusted = trusted
        self._descriptor = -1
        with suppress(OSError, ValueError):
            self._descriptor = os.open(path, FOLDER if trusted else FOLDER | os.O_NOFOLLOW)
            self._closed = weakref.finalize(self, os.close, self._descriptor)

    def close(self) -> None:
        if self._descriptor >= 0:
            self._closed()
            self._descriptor = -1

    def open(self, parts: list[str], flags: int, mode: int) -> int:
        path = "/".join(parts) or "."
        if self._descriptor < 0 or ".." in parts or "\0" in path:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if self._trusted:
            return os.open(path, flags, mode, dir_fd=self._descriptor)
        return open_beneath(self._descriptor, path, flags, mode)

    def check(self, found: os.stat_result, name: str, limit: int) -> None:
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", name)
        if found.st_size > limit:
            raise OSError(errno.EFBIG, f"larger than {limit} bytes", name)
        if not self._trusted and (found.st_nlink > 1 or found.st_uid != os.fstat(self._descriptor).st_uid):
            raise OSError(errno.EPERM, "perhaps not a file of the agent", name)


def hold(path: str | Path, *, trusted: bool = False) -> AgentFolder:
    """Hold a folder whose own path is trusted, until it is closed or collected.

    Args:
        path: The folder. One that cannot be opened is empty.
        trusted: The content is the user's own, as with `--home native`: links in it are followed, and its
            files may belong to anyone.
    """
    return AgentFolder(Held(path, trusted=trusted))


def open_beneath(folder: int, path: str, flags: int, mode: int = 0) -> int:
    """Open a path below a folder without following links, and without leaving the folder's file system.

    Args:
        folder: Descriptor of the folder.
        path: Relative, without `..`.
        flags: As for open(2).
        mode: As for open(2).

    Raises:
        OSError: the path does not exist, has a link, or cannot be opened.
    """
    how = struct.pack("QQQ", flags, mode, RESOLVE)
    found: int = _libc.syscall(SYS_OPENAT2, folder, os.fsencode(path), how, ctypes.c_size_t(len(how)))
    if found >= 0:
        return found
    if (code := ctypes.get_errno()) in NO_OPENAT2:
        return walk_beneath(folder, path, flags, mode)
    raise OSError(code, os.strerror(code), path)


def walk_beneath(folder: int, path: str, flags: int, mode: int = 0) -> int:
    """Do the same as `open_beneath` without openat2(2), one folder at a time."""
    at, parts = os.dup(folder), path.split("/")
    try:
        for part in parts[:-1]:
            below = os.open(part, FOLDER | os.O_NOFOLLOW, dir_fd=at)
            os.close(at)
            at = below
        found = os.open(parts[-1], flags | os.O_NOFOLLOW, mode, dir_fd=at)
    finally:
        os.close(at)
    if stat.S_ISLNK(os.fstat(found).st_mode):  # with O_PATH, a link itself can be opened
        os.close(found)
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
    return found
