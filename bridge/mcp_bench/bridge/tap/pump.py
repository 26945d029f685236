"""The byte pump between an agent and a server. It reads a copy, and forwards what it was given.

A frame is stored before its last byte is forwarded, so whatever either side can act on is in the
recording, even after `kill -9`. Nothing is rewritten: unknown methods, odd ids and lines that are
no JSON pass as they are, byte for byte. Nothing is held back either: the beginning of a long line
goes on while its end is still to come, so memory stays flat and a slow reader slows the sender.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import anyio
from anyio.abc import AnyByteReceiveStream

from mcp_bench.recorder.frames.body import Body, GrowingBody

Store = Callable[[Sequence[Body]], Awaitable[None]]
"""Gets the frames of one direction, terminators included; returns when they are on disk."""


class Splitter(Protocol):
    """Cuts a stream of bytes into frames as it comes, in whatever pieces it comes."""

    def feed(self, chunk: bytes) -> list[Body]:
        """Return the frames that `chunk` completes."""
        ...

    def rest(self) -> Body | None:
        """Return what is left when the stream ends."""
        ...


class Lines:
    """Cuts after each newline: a carriage return alone ends no JSON-RPC line."""

    def __init__(self) -> None:
        self._unfinished = GrowingBody()

    def feed(self, chunk: bytes) -> list[Body]:
        *lines, rest = chunk.split(b"\n")
        frames: list[Body] = [line + b"\n" for line in lines]
        if lines and self._unfinished:
            self._unfinished.add(lines[0] + b"\n")
            frames[0] = self._unfinished.take()
        self._unfinished.add(rest)
        return frames

    def rest(self) -> Body | None:
        return self._unfinished.take() if self._unfinished else None


class Sink(Protocol):
    """Where a chunk goes: a byte stream, or whoever takes it apart."""

    async def send(self, item: bytes, /) -> None: ...


async def pump(source: AnyByteReceiveStream, sink: Sink, store: Store) -> None:
    """Forward lines until `source` ends, and with it what is left of an unfinished one."""
    lines = Lines()
    try:
        async for chunk in source:
            if frames := lines.feed(chunk):
                await store(frames)
            await sink.send(chunk)
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        pass  # one side went away: the other one is told by the caller
    if rest := lines.rest():
        await store([rest])
