"""A journal of frames that are not in the database yet. A frame is appended to it before it is forwarded.

An append is one write; a commit of SQLite costs twenty times as much. A moment later, one commit moves many
frames to the database. If the writer is killed in between, the next process that opens the run commits the
journal. There are two files: one is committed while the other one grows.

An entry is a line of JSON, followed by the exact bytes for a frame. It starts with a keyed hash of both, so
that torn entries and entries written without the key are ignored.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b, sha256
from hmac import compare_digest
from pathlib import Path
from typing import TypeAlias

import orjson

from mcp_bench.recorder.errors import StorageError, write_error
from mcp_bench.recorder.records import Direction

NAMES = ("journal-0", "journal-1")
"""The files, in the folder of the run."""

HASH_BYTES = 8

_HEAD = json.JSONEncoder(separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class FrameEntry:
    """A frame as received. `number` is its row in `frames`."""

    number: int
    episode: str | None
    connection: int
    direction: Direction
    stored_us: int
    body: bytes


@dataclass(frozen=True, slots=True)
class RanEntry:
    """The server started to run a call, as number `execution` of its episode."""

    episode: str
    connection: int
    rpc_id: str
    """As JSON text."""
    execution: int

    def encode(self, secret: bytes = b"") -> bytes:
        text = _HEAD.encode(["ran", 0, self.episode, self.connection, self.rpc_id, self.execution])
        head = text.encode() + b"\n"
        return _hash(secret, head, sha256(b"").digest()) + head


Entry: TypeAlias = FrameEntry | RanEntry


def encode_frame(
    secret: bytes,
    number: int,
    episode: str | None,
    connection: int,
    direction: Direction,
    stored_us: int,
    body: bytes,
    digest: bytes,
) -> bytes:
    """Return the bytes of a frame's entry. `digest` is the SHA-256 of its body."""
    # ASCII and small numbers, so that it can be orjson, which is faster
    head = orjson.dumps(["frame", len(body), number, episode, connection, direction, stored_us]) + b"\n"
    return _hash(secret, head, digest) + head + body


def _hash(secret: bytes, head: bytes, body: bytes) -> bytes:
    hashed = blake2b(head + body, key=secret, digest_size=HASH_BYTES, person=b"journal")
    return hashed.hexdigest().encode() + b" "


class Journal:
    """The journal of one run, open for writing. Callers hold a lock."""

    def __init__(self, folder: Path, secret: bytes = b"") -> None:
        """Open or create the files in `folder`. `secret` is the key of the entries' hashes.

        Raises:
            StorageError: they cannot be written.
        """
        self._paths = [folder / name for name in NAMES]
        self._files: list[int] = []
        try:
            for path in self._paths:
                # no links: what was committed is cut off, and a folder from elsewhere can have a link here
                flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
                self._files.append(os.open(path, flags, 0o600))
        except OSError as error:
            for file in self._files:
                os.close(file)
            raise StorageError(f"cannot write {error.filename}: {error.strerror}") from error
        self._sizes = [os.fstat(file).st_size for file in self._files]
        self._now = 0
        self._deferred: list[bytes] = []
        self._secret = secret

    def entries(self) -> list[Entry]:
        """Return the entries of an earlier writer, oldest first, without a torn end."""
        files = [entries for path in self._paths if (entries := list(read(path.read_bytes(), self._secret)))]
        # a file without a frame is the newer one: its first append was torn by the kill, after a RanEntry
        files.sort(
            key=lambda entries: next((e.number for e in entries if isinstance(e, FrameEntry)), math.inf)
        )
        return [entry for entries in files for entry in entries]

    def defer(self, entry: RanEntry) -> None:
        """Write an entry together with the next frames, since it has no visible effect before them."""
        self._deferred.append(entry.encode(self._secret))

    def append(self, entries: Sequence[bytes]) -> None:
        """Append entries of frames. When this returns, they survive this process.

        Raises:
            StorageError: they cannot be written; the journal contains none of them.
        """
        data = b"".join([*self._deferred, *entries])
        file, start = self._files[self._now], self._sizes[self._now]
        try:
            written = os.write(file, data)
            while written < len(data):
                written += os.write(file, memoryview(data)[written:])
        except OSError as error:
            os.ftruncate(file, start)
            raise write_error(self._paths[self._now], error) from error
        self._sizes[self._now] = start + written
        self._deferred.clear()

    def sync(self) -> None:
        """Sync to the disk, so that all entries survive a power cut."""
        for file, size in zip(self._files, self._sizes, strict=True):
            if size:
                os.fdatasync(file)

    def switch(self) -> None:
        """Append to the other file from now on, if it is empty. The current one is being committed."""
        if self._sizes[self._now] and not self._sizes[1 - self._now]:
            self._now = 1 - self._now

    def clear_other(self) -> None:
        """Drop the entries before the last `switch`, which are in the database."""
        other = 1 - self._now
        if self._sizes[other]:
            os.ftruncate(self._files[other], 0)
            self._sizes[other] = 0

    def clear_all(self) -> None:
        """Drop all entries."""
        for _ in self._files:
            self.switch()
            self.clear_other()

    def close(self) -> None:
        """Close, and remove empty files. Entries in the others are for the next writer."""
        for file, path, size in zip(self._files, self._paths, self._sizes, strict=True):
            os.close(file)
            if not size:
                path.unlink(missing_ok=True)


def has_entries(folder: Path) -> bool:
    """Return whether the journal of a run has entries: its writer was killed, or goes on."""
    for name in NAMES:
        try:
            if (folder / name).stat().st_size:
                return True
        except OSError:
            continue
    return False


def read(data: bytes, secret: bytes = b"") -> Iterator[Entry]:
    """Yield entries up to the first that is incomplete or was not written with the key `secret`."""
    start = 2 * HASH_BYTES + 1
    position = 0
    while (end := data.find(b"\n", position)) >= 0:
        try:
            kind, size, *fields = json.loads(data[position + start : end])
            body = data[end + 1 : end + 1 + size]
            hashed = _hash(secret, data[position + start : end + 1], sha256(body).digest())
            if not compare_digest(data[position : position + start], hashed) or len(body) < size:
                return
            position = end + 1 + size
            yield FrameEntry(*[*fields, body]) if kind == "frame" else RanEntry(*fields)
        except (ValueError, TypeError):
            return
