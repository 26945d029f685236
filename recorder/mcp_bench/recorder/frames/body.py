"""The bytes of one frame: in memory, or in a temporary file if there are too many."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from hashlib import sha256
from tempfile import TemporaryFile, gettempdir
from typing import TYPE_CHECKING, TypeAlias

from mcp_bench.recorder.errors import DiskFullError, StorageError, is_disk_full

if TYPE_CHECKING:
    import sqlite3

LARGE = 8 << 20
"""A frame of this many bytes or more is buffered on disk."""
CHUNK = 1 << 18


class LargeBody:
    """A frame in an unnamed temporary file, which disappears when it is closed or the process ends.

    Every method may raise StorageError: the file cannot be written or read.
    """

    def __init__(self) -> None:
        with _file_errors():
            self._file = TemporaryFile()  # noqa: SIM115 - it lives as long as the frame
        self.size = 0
        self._hashed = sha256()

    def append(self, chunk: bytes) -> None:
        with _file_errors():
            self._file.write(chunk)
        self.size += len(chunk)
        self._hashed.update(chunk)

    def readable(self) -> int:
        """Flush the file, and return its descriptor."""
        with _file_errors():
            self._file.flush()
        return self._file.fileno()

    def chunks(self) -> Iterator[bytes]:
        """Yield the bytes from the start, at most `CHUNK` at a time."""
        with _file_errors():
            self._file.seek(0)
            while chunk := self._file.read(CHUNK):
                yield chunk

    def digest(self) -> bytes:
        """Return the SHA-256 of the bytes."""
        return self._hashed.digest()

    def close(self) -> None:
        with contextlib.suppress(OSError):  # its content is not needed any more
            self._file.close()

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self.close()


@contextlib.contextmanager
def _file_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        where = f"{gettempdir()}, which buffers frames of more than {LARGE >> 20} MiB"
        if is_disk_full(error):
            raise DiskFullError(
                f"the disk is full: cannot write to {where}. Free some space, or set TMPDIR to another folder"
            ) from error
        raise StorageError(f"cannot use {where}: {error.strerror}") from error


Body: TypeAlias = bytes | LargeBody


def digest(body: Body) -> bytes:
    """Return the SHA-256 of a body."""
    return sha256(body).digest() if isinstance(body, bytes) else body.digest()


def stored_body(body: bytes) -> str | bytes:
    """Return what to store for `body`: text if every SQLite tool shows it in full, else the bytes."""
    if b"\0" in body:
        return body
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        return body


def body_bytes(stored: str | bytes) -> bytes:
    """Return the exact bytes that `stored_body` was given.

    Raises:
        TypeError: it is something else, in a database from elsewhere.
    """
    if not isinstance(stored, str | bytes):
        raise TypeError("a body is no text and no blob")
    return stored.encode("utf-8") if isinstance(stored, str) else stored


def fill_blob(db: sqlite3.Connection, table: str, column: str, number: int, body: LargeBody) -> None:
    """Write a body into the row `number` of a table, piece by piece."""
    db.execute(f"UPDATE {table} SET {column} = zeroblob(?) WHERE rowid = ?", (body.size, number))  # noqa: S608
    with db.blobopen(table, column, number) as blob:
        for chunk in body.chunks():
            blob.write(chunk)


class GrowingBody:
    """Collects the chunks of a frame. Truthy when it has any."""

    def __init__(self, large: int = LARGE) -> None:
        """Keep up to `large` bytes in memory."""
        self._threshold = large
        self._parts: list[bytes] = []
        self._size = 0
        self._large: LargeBody | None = None

    def __bool__(self) -> bool:
        return self._size > 0

    @property
    def size(self) -> int:
        """Number of bytes."""
        return self._size

    def add(self, chunk: bytes) -> None:
        if not chunk:
            return
        self._size += len(chunk)
        if self._large is None:
            self._parts.append(chunk)
            if self._size < self._threshold:
                return
            self._large = LargeBody()
            chunk = b"".join(self._parts)
            self._parts.clear()
        self._large.append(chunk)

    def take(self) -> Body:
        """Return the collected bytes, and start over."""
        body: Body = b"".join(self._parts) if self._large is None else self._large
        self._parts, self._size, self._large = [], 0, None
        return body

    def close(self) -> None:
        """Drop the collected bytes."""
        if self._large is not None:
            self._large.close()
        self._parts, self._size, self._large = [], 0, None
