"""The files of a container that differ from its image, listed and carried to another container.

A file's time of change (ctime) and inode say whether it is still the image's: no program in the container can
set them. Carried files are a tar archive; what was deleted is a device with number 0, as in an overlay.
Standard library only.
"""

import errno
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from mcp_bench.bridge.sandbox import changes
from mcp_bench.bridge.sandbox.changes import FOLDER, PLAIN, Change

OURS = "/.mcp-bench"
"""Where the first process of a container finds its program."""
Mark = tuple[int, int, bool]


class Changed(NamedTuple):
    path: str
    name: str
    folder: int
    """Descriptor of its folder."""
    found: "os.stat_result"
    replaced: bool
    """It is a folder now, and was something else or another folder."""


def mount_points() -> "frozenset[str]":
    """Return the places where something else is mounted (proc(5), mountinfo)."""
    with open("/proc/self/mountinfo", "rb") as file:
        places = [line.split()[4].decode("unicode_escape") for line in file]
    return frozenset(place for place in places if place != "/") | {OURS}


class Files:
    """The files of this container, compared with what they were."""

    def __init__(self) -> None:
        self.skipped = mount_points()
        self.before: dict[str, Mark] = {}
        self.begin()

    def begin(self) -> None:
        """Let the files be as they should: changes are counted from now on."""
        self.before = {
            path: mark(found)
            for path, _, _, found in changes.entries(os.open("/", FOLDER), self.skipped)
            if found is not None
        }

    def changed(self) -> "Iterator[Changed]":
        """Yield what is new or was changed, parents first."""
        for path, name, folder, found in changes.entries(os.open("/", FOLDER), self.skipped):
            if found is None:
                continue
            was, now = self.before.get(path), mark(found)
            if was != now:
                other = was is not None and now[2] and was[1:] != now[1:]
                yield Changed(path, name, folder, found, other)

    def deleted(self) -> "list[str]":
        """Return what is gone, without what was below another one that is gone or replaced."""
        there: dict[str, bool] = {"": True}
        for path, _, _, found in changes.entries(os.open("/", FOLDER), self.skipped):
            if found is not None:
                was, now = self.before.get(path), mark(found)
                there[path] = now[2] and (was is None or was[1:] == now[1:])
        return [
            path for path in self.before if path not in there and there.get(path.rpartition("/")[0], False)
        ]

    def listed(self, reading: changes.Reading) -> "list[Change]":
        """Return the changes, sorted by path; see `mcp_bench.servers.sandbox.FileChange`.

        Args:
            reading: bounds what is read.

        Raises:
            TooLongError: there is more.
        """
        found: list[Change] = []
        for one in self.changed():
            reading.count_path(one.path)
            try:
                change = changes.one(one.name, one.folder, one.found, reading)
            except OSError:
                continue
            found.append({"path": one.path, **change, **({"replaced": True} if one.replaced else {})})
        found += [{"path": path, "kind": "deleted", "mode": 0, "size": 0} for path in self.deleted()]
        found.sort(key=lambda change: str(change["path"]))
        return [{**change, "path": changes.shown(str(change["path"]))} for change in found]

    def used(self) -> "tuple[int, int]":
        """Return the bytes and the number of the files that are new or were changed."""
        size = count = 0
        met = set()
        for one in self.changed():
            count += 1
            if one.found.st_nlink > 1 and not stat.S_ISDIR(one.found.st_mode):
                if one.found.st_ino in met:
                    continue
                met.add(one.found.st_ino)
            size += one.found.st_blocks * 512
        return size, count

    def pack(self, out: Any, most: int, wanted: "Callable[[str], bool]") -> None:
        """Write changes as a tar archive.

        Args:
            out: has `write`.
            most: limit for the files' length, holes included.
            wanted: whether a path is to be in it.

        Raises:
            OSError: they are longer, or one cannot be read.
        """
        import tarfile

        with tarfile.open(fileobj=out, mode="w|", format=tarfile.PAX_FORMAT) as archive:
            for path in filter(wanted, self.deleted()):
                archive.addfile(_gone(path))
            for one in self.changed():
                if not wanted(one.path):
                    continue
                if one.replaced:
                    archive.addfile(_gone(one.path))
                info = tarfile.TarInfo(one.path[1:])
                info.mode, info.mtime = stat.S_IMODE(one.found.st_mode), one.found.st_mtime
                info.uid, info.gid = one.found.st_uid, one.found.st_gid
                kind = stat.S_IFMT(one.found.st_mode)
                if kind == stat.S_IFREG:
                    info.size = one.found.st_size
                    if (most := most - info.size) < 0:
                        raise OSError(errno.EFBIG, "storage: its files are too long to be kept")
                    with open(os.open(one.name, PLAIN, dir_fd=one.folder), "rb") as file:
                        archive.addfile(info, file)
                elif kind == stat.S_IFDIR:
                    info.type = tarfile.DIRTYPE
                    archive.addfile(info)
                elif kind == stat.S_IFLNK:
                    info.type, info.linkname = (tarfile.SYMTYPE, os.readlink(one.name, dir_fd=one.folder))
                    archive.addfile(info)
                elif kind == stat.S_IFIFO:
                    info.type = tarfile.FIFOTYPE
                    archive.addfile(info)


def mark(found: "os.stat_result") -> Mark:
    return found.st_ctime_ns, found.st_ino, stat.S_ISDIR(found.st_mode)


def _gone(path: str) -> Any:
    import tarfile

    info = tarfile.TarInfo(path[1:])
    info.type = tarfile.CHRTYPE
    return info


def unpack(source: Any, wanted: "Callable[[str], bool]") -> None:
    """Put the files of an archive of `pack` into this container.

    Args:
        source: has `read`.
        wanted: whether a path is to be there.

    Raises:
        OSError: a file cannot be written.
    """
    import tarfile

    skipped = mount_points()
    above = {place[:end] for place in skipped for end in range(len(place)) if place[end] == "/"}
    with tarfile.open(fileobj=source, mode="r|") as archive:
        if hasattr(tarfile, "fully_trusted_filter"):
            archive.extraction_filter = tarfile.fully_trusted_filter
        for member in archive:
            path = os.path.normpath(f"/{member.name}")  # a layer's begin with `./`
            if not wanted(path) or any(path == one or path.startswith(f"{one}/") for one in skipped):
                continue
            if path in above and not member.isdir():
                continue  # something is mounted below it
            try:
                if member.isdir():
                    if not os.path.isdir(path) or os.path.islink(path):
                        remove(path)
                else:
                    remove(path)
                if not member.ischr():
                    archive.extract(member, "/", numeric_owner=True)
            except OSError as error:
                if error.errno != errno.ENAMETOOLONG:  # deeper than a path can name
                    raise


def remove(path: str) -> None:
    """Remove what is at a path, if there is something."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
    elif os.path.lexists(path):
        os.unlink(path)
