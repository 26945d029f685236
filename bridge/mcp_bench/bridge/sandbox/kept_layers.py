"""Files that a sandbox began with once, kept so that the next one begins with them: built images of tasks.

A layer is the folder `KEY/files` in `cache/layers` of the home, as a layer of a sandbox: its files belong to
root, where root keeps it. It is made beside and renamed, so that there is no half one. Who uses a layer
holds a shared lock on `KEY` (flock(2)); who removes one, an exclusive lock.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from mcp_bench.bridge.wire.remove_folder import remove_folder
from mcp_bench.servers.errors import WrongUseError
from mcp_bench.servers.home import home
from mcp_bench.servers.left_folders import FLAGS, is_left

VARIABLE = "MCP_BENCH_LAYERS_MIB"
MOST_MIB = 4096
UNUSED_DAYS = 30.0
DAY = 86400.0
FILES, SIZE = "files", "bytes"
ENTRY = 512
"""Bytes that a file counts besides its own."""
PART = ".part-"
"""Begins the name of a layer that is being made or removed."""
OPAQUE = "user.overlay.opaque"
"""Of a folder that hides what is below it (overlayfs with `userxattr`)."""

Owner = Callable[[int], int]
"""Returns the id to store a file with, of the id that it has. Raises KeyError for one that cannot be kept."""


class KeptLayer(NamedTuple):
    key: str
    bytes: int
    used: float
    """Seconds since 1970."""


def place() -> Path:
    return home() / "cache" / "layers"


def most_bytes() -> int:
    """Return how much all layers may have together.

    Raises:
        WrongUseError: the variable is no number.
    """
    text = os.environ.get(VARIABLE) or str(MOST_MIB)
    try:
        return max(int(text), 0) << 20
    except ValueError:
        raise WrongUseError(f"${VARIABLE} is {text!r}: give a number of MiB, or 0 to keep nothing") from None


@contextmanager
def used(key: str) -> Iterator[Path | None]:
    """Yield a layer's folder, which stays as long as it is used; None: there is none."""
    folder = place() / key
    held = _locked(folder, fcntl.LOCK_SH) if key else None
    try:
        if held is not None:
            os.utime(held)
        yield None if held is None else folder / FILES
    finally:
        if held is not None:
            os.close(held)


def keep(key: str, upper: Path, uid: Owner) -> bool:
    """Keep the files of an overlay's upper folder; return whether they are kept now.

    They are not if one is not readable, if all of them are too many, or if nothing can be written there.
    """
    parent, most = place(), most_bytes()
    try:
        if (parent / key).exists() or not most:
            return most > 0
        parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        parent.chmod(0o700)  # programs with the set-user-ID bit are in it
        part = Path(tempfile.mkdtemp(prefix=PART, dir=parent))
        held = os.open(part, FLAGS)
    except OSError:  # it costs the next episode time, and not this one its world
        return False
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        part.chmod(0o711)
        size = _copy(upper, part / FILES, uid, most // 4)
        (part / SIZE).write_text(str(size))
        part.rename(parent / key)
    except (OSError, KeyError, _TooMuchError):
        remove_folder(part, held)
    finally:
        os.close(held)
    remove(most_bytes=most, unused_days=UNUSED_DAYS)
    return (parent / key).exists()  # perhaps another process was faster


def kept() -> list[KeptLayer]:
    """Return the layers, the last used first."""
    found = []
    for folder in place().glob("[!.]*"):
        with suppress(OSError, ValueError):  # removed meanwhile
            size = int((folder / SIZE).read_text())
            found.append(KeptLayer(folder.name, size, folder.stat().st_mtime))
    return sorted(found, key=lambda one: one.used, reverse=True)


def remove(*, most_bytes: int = 0, unused_days: float = 0.0) -> list[KeptLayer]:
    """Remove the layers that are too many or not used for long, and what killed processes left.

    Those in use stay. Returns the removed ones.
    """
    for part in place().glob(f"{PART}*"):
        with suppress(OSError):
            held = os.open(part, FLAGS)
            try:
                if is_left(held):
                    remove_folder(part, held)
            finally:
                os.close(held)
    removed, total = [], 0
    for one in kept():
        total += one.bytes
        if (total > most_bytes or time.time() - one.used > unused_days * DAY) and _remove(one.key):
            removed.append(one)
            total -= one.bytes
    return removed


def _remove(key: str) -> bool:
    folder = place() / key
    held = _locked(folder, fcntl.LOCK_EX)
    if held is None:
        return False
    try:
        gone = folder.with_name(f"{PART}{os.urandom(8).hex()}")
        folder.rename(gone)
        remove_folder(gone, held)
    except OSError:
        return False
    finally:
        os.close(held)
    return True


def _locked(folder: Path, how: int) -> int | None:
    """Return a locked descriptor of a layer that is still there, or None."""
    try:
        held = os.open(folder, FLAGS)
    except OSError:
        return None
    try:
        fcntl.flock(held, how | fcntl.LOCK_NB)
        if os.path.samestat(folder.lstat(), os.fstat(held)):
            return held
    except OSError:
        pass
    os.close(held)
    return None


class _TooMuchError(Exception):
    """A layer is too large to be kept."""


def _copy(source: Path, target: Path, uid: Owner, most: int) -> int:
    """Copy an upper folder with its owners, modes, times, and signs of deleted files; return its size."""
    total = 0
    for folder, folders, names, held in os.fwalk(source, onerror=_refuse, follow_symlinks=False):
        below = target / Path(folder).relative_to(source)
        below.mkdir(exist_ok=True)
        links = [name for name in folders if stat.S_ISLNK(os.lstat(name, dir_fd=held).st_mode)]
        for name in (*names, *links):
            total += ENTRY + _copy_one(name, held, below / name, uid, most - total)
            if total > most:
                raise _TooMuchError
        try:
            opaque = os.getxattr(held, OPAQUE)
        except OSError:  # it hides nothing
            continue
        os.setxattr(below, OPAQUE, opaque)  # without it, deleted files would be there again
    for folder, _, _, held in os.fwalk(source, topdown=False, follow_symlinks=False):
        _owned(target / Path(folder).relative_to(source), os.fstat(held), uid)
    return total


def _refuse(error: OSError) -> None:
    raise error


def _copy_one(name: str, folder: int, target: Path, uid: Owner, most: int) -> int:
    found = os.lstat(name, dir_fd=folder)
    if stat.S_ISREG(found.st_mode) and found.st_size > most:  # also a sparse file, which has no blocks
        raise _TooMuchError
    if stat.S_ISLNK(found.st_mode):
        target.symlink_to(os.readlink(name, dir_fd=folder))
    elif stat.S_ISREG(found.st_mode):
        opened = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        with os.fdopen(opened, "rb") as data, target.open("xb") as file:
            shutil.copyfileobj(data, file)
    elif stat.S_ISFIFO(found.st_mode):
        os.mkfifo(target)
    elif stat.S_ISCHR(found.st_mode) and found.st_rdev == 0:  # a deleted file
        os.mknod(target, stat.S_IFCHR, 0)
        return 0
    else:
        return 0  # a socket that nothing listens on
    _owned(target, found, uid)
    return found.st_size


def _owned(target: Path, found: os.stat_result, uid: Owner) -> None:
    os.chown(target, uid(found.st_uid), uid(found.st_gid), follow_symlinks=False)
    if not stat.S_ISLNK(found.st_mode):
        target.chmod(stat.S_IMODE(found.st_mode))
    os.utime(target, ns=(found.st_atime_ns, found.st_mtime_ns), follow_symlinks=False)
