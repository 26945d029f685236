"""List what a sandbox changed, from the upper layer of its overlay. Standard library only.

Nothing here follows a link, opens anything but plain files and folders, or reads without a bound. Deleted
files are character devices with number 0 (https://docs.kernel.org/filesystems/overlayfs.html, "whiteouts").
"""

import errno
import hashlib
import os
import stat
import time
from bisect import bisect_left
from collections.abc import Generator, Iterator
from contextlib import closing
from typing import Any

Change = dict[str, Any]

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
PLAIN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
MOST_LEVELS = 1000
OPAQUE = "user.overlay.opaque"
PATH_BYTES = 256
"""For the path of each file that the limit allows, on average."""
PIECE = 1 << 20
ZEROS = bytes(PIECE)


class TooLongError(Exception):
    """The files, or their paths, are too long to be read: neither costs its maker anything."""


class Reading:
    """Bounds what is read of files. What is stored of them is bounded already."""

    def __init__(self, limits: "dict[str, Any]", seconds: float) -> None:
        """Set up the bounds.

        Args:
            limits: the sandbox's.
            seconds: for all of it.
        """
        self._left, self._met = 2 * limits["storage"], set[int]()
        """What is left for holes, and for further names of the same file."""
        self._paths = PATH_BYTES * limits["files"]
        self._until = time.monotonic() + seconds

    def count_path(self, path: str) -> None:
        """Count a path, or what a link leads to.

        Raises:
            TooLongError: this and the ones before it are too long, or the time is over.
        """
        self._paths -= len(path)
        if self._paths < 0:
            raise TooLongError("files: their paths are too long to be listed")
        self.look_at_time()

    def count(self, found: os.stat_result) -> None:
        """Count a file that is to be read.

        Raises:
            TooLongError: this and the ones before it are too long.
        """
        stored = 0 if found.st_ino in self._met else found.st_blocks * 512
        self._met.add(found.st_ino)
        self._left -= max(0, found.st_size - stored)
        if self._left < 0:
            raise TooLongError("storage: its files are too long to be compared")

    def look_at_time(self) -> None:
        """Raise an error if the time is over."""
        if time.monotonic() > self._until:
            raise TooLongError("storage: its files take too long to be compared")


def of(layers: "list[str]", reading: Reading) -> "list[Change]":
    """Return the changes of some layers, the topmost last, sorted by path.

    Args:
        layers: folders.
        reading: bounds what is read.

    Raises:
        TooLongError: there is more.
    """
    found: dict[str, Change] = {}
    for layer in layers:
        top, earlier = os.open(layer, FOLDER), sorted(found)
        for change in walk(top, reading):
            path = change["path"]
            if change["kind"] != "folder" or change.get("replaced"):  # everything below it is gone
                first, last = bisect_left(earlier, path + "/"), bisect_left(earlier, path + "0")  # after "/"
                for below in earlier[first:last]:
                    found.pop(below, None)
            found[path] = change
    return [found[path] for path in sorted(found)]


def walk(top: int, reading: Reading) -> "Iterator[Change]":
    """Yield what is in a layer, parents first. Closes `top`."""
    with closing(entries(top)) as found_entries:
        for path, name, folder, found in found_entries:
            reading.count_path(path)
            try:
                change = one(name, folder, found, reading)
            except OSError:
                continue  # it changes meanwhile
            yield {"path": shown(path), **change}


def shown(path: str) -> str:
    return os.fsencode(path).decode(errors="replace")


def entries(
    top: int, skipped: "frozenset[str]" = frozenset()
) -> "Generator[tuple[str, str, int, os.stat_result | None], None, None]":
    """Yield what is below a folder, parents first: path, name, descriptor of its folder, and its status.

    It yields None instead of the status where folders are nested more than `MOST_LEVELS` deep. Closes `top`.

    Args:
        skipped: paths to leave out, with everything below them.
    """
    waiting: list[tuple[int, str, Iterator[str]]] = [(top, "", iter(sorted(os.listdir(top))))]
    try:
        while waiting:
            folder, prefix, names = waiting[-1]
            name = next(names, None)
            if name is None:
                os.close(folder)
                waiting.pop()
                continue
            path = f"{prefix}/{name}"
            if path in skipped:
                continue
            try:
                found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            except OSError:
                continue  # it changes meanwhile
            yield path, name, folder, found
            if not stat.S_ISDIR(found.st_mode):
                continue
            if len(waiting) >= MOST_LEVELS:
                yield f"{path}/...", "...", folder, None
                continue
            try:
                below = os.open(name, FOLDER, dir_fd=folder)
            except OSError:
                continue
            waiting.append((below, path, iter(sorted(os.listdir(below)))))
    finally:  # who asks can have enough
        for folder, _, _ in waiting:
            os.close(folder)


def one(name: str, folder: int, found: "os.stat_result | None", reading: Reading) -> Change:
    """Return what one entry of a folder is.

    Raises:
        OSError: it is gone.
        TooLongError: it is too long to be read.
    """
    if found is None:
        return {"kind": "other", "mode": 0, "size": 0}
    change: Change = {"mode": stat.S_IMODE(found.st_mode), "size": 0}
    if stat.S_ISCHR(found.st_mode) and found.st_rdev == 0:
        return {"kind": "deleted", "mode": 0, "size": 0}
    if stat.S_ISLNK(found.st_mode):
        target = os.readlink(name, dir_fd=folder)
        reading.count_path(target)
        return {**change, "kind": "link", "target": target}
    if stat.S_ISDIR(found.st_mode):
        return {**change, "kind": "folder", **({"replaced": True} if opaque(name, folder) else {})}
    if not stat.S_ISREG(found.st_mode):
        return {**change, "kind": "other"}
    reading.count(found)
    return {
        **change,
        "kind": "file",
        "size": found.st_size,
        "sha256": digest(name, folder, found.st_size, reading),
    }


def opaque(name: str, folder: int) -> bool:
    """Return whether a folder replaces the one of the layers below."""
    place = os.open(name, FOLDER, dir_fd=folder)
    try:
        return os.getxattr(place, OPAQUE) == b"y"
    except OSError:
        return False
    finally:
        os.close(place)


def digest(name: str, folder: int, size: int, reading: Reading) -> str:
    """Return the SHA-256 of a file's first `size` bytes."""
    place = os.open(name, PLAIN, dir_fd=folder)
    found = hashlib.sha256()
    try:
        for chunk in chunks(place, size):
            reading.look_at_time()
            found.update(chunk)
    finally:
        os.close(place)
    return found.hexdigest()


def chunks(place: int, size: int) -> "Iterator[bytes | memoryview]":
    """Yield the first `size` bytes of a file. What it does not store is not read (lseek(2), SEEK_DATA)."""
    at = 0
    while at < size:
        try:
            data = os.lseek(place, at, os.SEEK_DATA)
        except OSError as error:
            data = size if error.errno == errno.ENXIO else at
        if data > at:
            chunk: bytes | memoryview = memoryview(ZEROS)[: min(data, size) - at]
        else:
            chunk = os.pread(place, min(PIECE, size - at), at)
        if not chunk:
            return  # it was cut meanwhile
        yield chunk
        at += len(chunk)
