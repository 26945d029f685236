"""Compressed byte streams. Compression is reproducible: the same input gives the same bytes."""

from __future__ import annotations

import gzip
import io
import sys
import zlib
from pathlib import Path
from typing import Any, BinaryIO, cast

from mcp_bench.servers.errors import MissingDependencyError
from mcp_bench.servers.extras import install_extra

ZSTD_CHUNK = 1 << 14
"""Compressed bytes to decompress at once. The output can be a few thousand times as large."""


def compressed(file: io.RawIOBase, compression: str | None) -> BinaryIO:
    """Return a writable stream that compresses into `file`. Closing it leaves `file` open.

    Raises:
        MissingDependencyError: `compression` is zstd, and zstandard is not installed.
    """
    buffered = io.BufferedWriter(_Lent(file), 1 << 20)
    match compression:
        case "gzip":
            # name and time in the header would make the bytes differ
            stream: Any = gzip.GzipFile(filename="", mode="wb", fileobj=buffered, mtime=0, compresslevel=6)
            return cast(BinaryIO, _Outer(stream, buffered))
        case "zstd":
            stream = _zstd().ZstdCompressor(level=10).stream_writer(buffered, closefd=False)
            return cast(BinaryIO, _Outer(stream, buffered))
        case _:
            return cast(BinaryIO, buffered)


def open_plain(path: Path) -> BinaryIO:
    """Open a file and decompress it if its first bytes are those of gzip or zstd.

    Raises:
        MissingDependencyError: the file is zstd, and zstandard is not installed.
        OSError: the file cannot be read.
    """
    file = path.open("rb")
    start = file.peek(4)[:4]
    if start.startswith(b"\x1f\x8b"):
        return cast(BinaryIO, _Outer(gzip.GzipFile(fileobj=file, mode="rb"), file))
    if start == b"\x28\xb5\x2f\xfd":
        return cast(BinaryIO, _Outer(io.BufferedReader(_ZstdReader(file), 1 << 20), file))
    return cast(BinaryIO, file)


def damage() -> tuple[type[Exception], ...]:
    """Return the exceptions, besides OSError, that reading a damaged file can raise."""
    zstandard = sys.modules.get("zstandard")
    return (EOFError, zlib.error, zstandard.ZstdError) if zstandard else (EOFError, zlib.error)


def zstd_bytes(data: bytes, limit: int) -> bytes:
    """Decompress zstd data, at most `limit` bytes of it.

    Raises:
        MissingDependencyError: zstandard is not installed.
        ValueError: the data is not zstd.
    """
    zstandard = _zstd()
    try:
        with zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True) as stream:
            return bytes(stream.read(limit))
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from error


class _ZstdReader(io.RawIOBase):
    """Decompresses zstd frames. Unlike the library's own reader, it reports truncated files."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._library = _zstd()
        self._frame: Any = None
        self._compressed, self._plain = b"", io.BytesIO()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not (count := self._plain.readinto(buffer)):
            if not self._compressed:
                self._compressed = self._file.read(ZSTD_CHUNK)
            if not self._compressed:
                if self._frame is not None:
                    raise EOFError("truncated: the file ends within a zstd frame")
                return 0
            frame = self._frame or self._library.ZstdDecompressor().decompressobj()
            self._plain = io.BytesIO(frame.decompress(self._compressed))
            self._compressed = frame.unused_data if frame.eof else b""
            self._frame = None if frame.eof else frame
        return count


def _zstd() -> Any:
    try:
        import zstandard
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            f"zstd needs the Python package zstandard: {install_extra('zstd')}"
        ) from error
    return zstandard


class _Lent(io.RawIOBase):
    """A wrapper whose close leaves the file open."""

    def __init__(self, file: io.RawIOBase) -> None:
        self._file = file

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int | None:
        return self._file.write(data)


class _Outer(io.BufferedIOBase):
    """A stream that closes the inner stream with it."""

    def __init__(self, stream: Any, inner: Any) -> None:
        self._stream, self._inner = stream, inner

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        return int(self._stream.write(data))

    def read(self, size: int | None = -1, /) -> bytes:
        return bytes(self._stream.read(-1 if size is None else size))

    def readline(self, size: int | None = -1, /) -> bytes:
        return bytes(self._stream.readline(-1 if size is None else size))

    def close(self) -> None:
        if not self.closed:
            try:
                self._stream.close()
            finally:
                self._inner.close()
                super().close()
