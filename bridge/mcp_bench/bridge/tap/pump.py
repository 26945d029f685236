"""The byte pump between an agent and a server.

A frame is stored before its last byte is forwarded. So everything that either side can act on is in the
recording, even after `kill -9`. The pump changes nothing: unknown methods, odd ids and invalid JSON pass byte
for byte. It does not buffer lines: the start of a long line is forwarded before its end arrives. So memory
stays flat, and a slow reader slows the sender.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Callable, Sequence
from typing import Protocol

import anyio

from mcp_bench.recorder.frames.body import Body, GrowingBody

Store = Callable[[Sequence[Body]], Awaitable[None]]
"""Gets frames of one direction, terminators included. Returns when they are on disk."""
MAX_LINE = 1 << 30
"""In bytes, as for a request over HTTP. Lines are kept on disk until they end."""


class Splitter(Protocol):
    """Splits a stream of bytes into frames, however the stream is cut into chunks."""

    def feed(self, chunk: bytes) -> list[Body]:
        """Return the frames that `chunk` completes."""
        ...

    def rest(self) -> Body | None:
        """Return the incomplete frame that is left when the stream ends, if any."""
        ...


class Lines:
    """Split after each newline. A carriage return alone does not end a JSON-RPC line."""

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

    @property
    def unfinished(self) -> int:
        """Bytes of the line that has no end yet."""
        return self._unfinished.size

    def rest(self) -> Body | None:
        return self._unfinished.take() if self._unfinished else None


class Sink(Protocol):
    """Receiver of chunks: a byte stream, or a parser."""

    async def send(self, item: bytes, /) -> None: ...


async def pump(source: AsyncIterable[bytes], sink: Sink, store: Store) -> None:
    """Forward everything from `source` to `sink`, and store its lines, until `source` ends.

    An incomplete last line is stored too. A line of more than `MAX_LINE` bytes counts as the end.
    """
    lines = Lines()
    try:
        async for chunk in source:
            if frames := lines.feed(chunk):
                await store(frames)
            await sink.send(chunk)
            if lines.unfinished > MAX_LINE:
                break
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        pass  # one side is gone: the caller closes the other one
    if rest := lines.rest():
        await store([rest])
