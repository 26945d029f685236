"""Frames that are stored already, but not in the database yet: appended to a file before they may pass.

An append is one write, a commit of SQLite costs twenty times as much. What is in the journal reaches
the database a moment later, many frames in one commit. A writer that is killed in between leaves it
to whoever opens the run next. There are two files: one is committed while the other one grows.

An entry is a line of JSON, with the CRC-32 of what follows in front, and for a frame its exact bytes.
"""

from __future__ import annotations

import errno
import json
import os
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from mcp_bench.recorder.errors import DiskFullError, StorageError
from mcp_bench.recorder.records import Direction

NAMES = ("journal-0", "journal-1")
"""The files, in the folder of the run."""

_HEAD = json.JSONEncoder(separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class FrameEntry:
    """A frame as it came. `number` is its row in `frames`."""

    number: int
    episode: str | None
    connection: int
    direction: Direction
    stored_us: int
    body: bytes

    def encode(self) -> bytes:
        body = self.body
        fields = [self.number, self.episode, self.connection, self.direction, self.stored_us]
        return _sealed(["frame", len(body), *fields], body)


@dataclass(frozen=True, slots=True)
class RanEntry:
    """The server began to run a call, as the `execution`-th of its episode."""

    episode: str
    connection: int
    rpc_id: str
    """As JSON text."""
    execution: int

    def encode(self) -> bytes:
        return _sealed(["ran", 0, self.episode, self.connection, self.rpc_id, self.execution], b"")


Entry: TypeAlias = FrameEntry | RanEntry


def _sealed(fields: list[object], body: bytes) -> bytes:
    head = _HEAD.encode(fields).encode() + b"\n"
    return b"%08x " % zlib.crc32(body, zlib.crc32(head)) + head + body


class Journal:
    """The journal of one run, open for writing. Its callers take care that one of them writes at a time."""

    def __init__(self, folder: Path) -> None:
        """Open or create the files in `folder`.

        Raises:
            StorageError: they cannot be written.
        """
        self._paths = [folder / name for name in NAMES]
        self._files: list[int] = []
        try:
            for path in self._paths:
                flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
                self._files.append(os.open(path, flags, 0o600))
        except OSError as error:
            raise StorageError(f"cannot write {error.filename}: {error.strerror}") from error
        self._sizes = [os.fstat(file).st_size for file in self._files]
        self._now = 0
        self._notes: list[bytes] = []

    def entries(self) -> list[Entry]:
        """Return what a writer before this one left, oldest first. A torn end was never promised."""
        files = [entries for path in self._paths if (entries := list(read(path.read_bytes())))]
        files.sort(key=lambda entries: next(e.number for e in entries if isinstance(e, FrameEntry)))
        return [entry for entries in files for entry in entries]

    def note(self, entry: RanEntry) -> None:
        """Add an entry together with the next frames: nobody has seen anything of it before."""
        self._notes.append(entry.encode())

    def append(self, entries: Sequence[FrameEntry]) -> None:
        """Add frames. On return they outlive this process.

        Raises:
            StorageError: they cannot be written; nothing of them is in the journal.
        """
        data = b"".join([*self._notes, *(entry.encode() for entry in entries)])
        file, start = self._files[self._now], self._sizes[self._now]
        try:
            written = os.write(file, data)
            while written < len(data):
                written += os.write(file, memoryview(data)[written:])
        except OSError as error:
            os.ftruncate(file, start)
            path = self._paths[self._now]
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise DiskFullError(
                    f"the disk is full: nothing more fits into {path}. What was stored before is intact; "
                    "free some space and resume the run"
                ) from error
            raise StorageError(f"cannot write {path}: {error.strerror}") from error
        self._sizes[self._now] = start + written
        self._notes.clear()

    def sync(self) -> None:
        """Have everything that was appended outlive a power cut, too."""
        for file, size in zip(self._files, self._sizes, strict=True):
            if size:
                os.fdatasync(file)

    def turn(self) -> None:
        """Let what comes now go to the other file, if that is empty: this one is being committed."""
        if self._sizes[self._now] and not self._sizes[1 - self._now]:
            self._now = 1 - self._now

    def clear(self) -> None:
        """Drop what was there at the last `turn`: the database has it."""
        other = 1 - self._now
        if self._sizes[other]:
            os.ftruncate(self._files[other], 0)
            self._sizes[other] = 0

    def clear_all(self) -> None:
        """Drop everything."""
        for _ in self._files:
            self.turn()
            self.clear()

    def close(self) -> None:
        """Remove the files that are empty, and keep what is in the others for who opens them next."""
        for file, path, size in zip(self._files, self._paths, self._sizes, strict=True):
            os.close(file)
            if not size:
                path.unlink(missing_ok=True)


def left_behind(folder: Path) -> bool:
    """Say whether there is something in the journal of a run."""
    for name in NAMES:
        try:
            if (folder / name).stat().st_size:
                return True
        except OSError:
            continue
    return False


def read(data: bytes) -> Iterator[Entry]:
    """Yield entries up to the first one that is not whole."""
    position = 0
    while (end := data.find(b"\n", position)) >= 0:
        try:
            kind, size, *fields = json.loads(data[position + 9 : end])
            body = data[end + 1 : end + 1 + size]
            checksum = b"%08x " % zlib.crc32(data[position + 9 : end + 1 + size])
            if data[position : position + 9] != checksum or len(body) < size:
                return
            position = end + 1 + size
            yield FrameEntry(*[*fields, body]) if kind == "frame" else RanEntry(*fields)
        except (ValueError, TypeError):
            return
