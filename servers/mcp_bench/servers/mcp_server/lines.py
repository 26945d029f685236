"""Read lines from a stream of byte chunks."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import anyio
from anyio.abc import AnyByteReceiveStream

ENDS = 4096
"""Bytes kept from each end of a line that is too long."""


@dataclass(frozen=True)
class LongLine:
    """The size and both ends of a line that exceeded its reader's limit."""

    size: int
    head: bytes
    tail: bytes


class UnfinishedLine:
    """Collects the pieces of a line. For a line over `limit` bytes it keeps only the ends."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[bytes] = []  # joined once, to keep long lines cheap
        self._size = 0

    def __bool__(self) -> bool:
        return self._size > 0

    def add(self, part: bytes) -> None:
        self._size += len(part)
        self._parts.append(part)
        if self._size > self._limit:
            kept = b"".join(self._parts)
            self._parts = [kept[:ENDS], kept[ENDS:][-ENDS:]]

    def complete(self, chunk: bytes) -> Iterator[bytes | LongLine]:
        """Add a chunk, and yield each line that it ends, without its newline."""
        first, *rest = chunk.split(b"\n")
        self.add(first)
        for part in rest:
            yield self.take()
            self.add(part)

    def take(self) -> bytes | LongLine:
        """Return the line and start the next one."""
        parts, size = self._parts, self._size
        self._parts, self._size = [], 0
        if size <= self._limit:
            return b"".join(parts)
        return LongLine(size, parts[0], b"".join(parts)[-ENDS:])


async def read_bounded_lines(stream: AnyByteReceiveStream, limit: int) -> AsyncIterator[bytes | LongLine]:
    """Yield each line without its newline, including a last line that has none.

    Stops when the stream ends or breaks. Never holds more than `limit` bytes of a line.
    """
    line = UnfinishedLine(limit)
    while True:
        try:
            chunk = await stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            break
        for complete in line.complete(chunk):
            yield complete
    if line:
        yield line.take()


async def read_lines(stream: AnyByteReceiveStream) -> AsyncIterator[bytes]:
    """Yield lines of any length, from a trusted peer."""
    async for line in read_bounded_lines(stream, sys.maxsize):
        assert isinstance(line, bytes)  # noqa: S101 - no line exceeds sys.maxsize
        yield line
