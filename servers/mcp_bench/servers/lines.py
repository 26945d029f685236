"""Lines out of a stream of byte chunks."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
from anyio.abc import AnyByteReceiveStream


async def read_lines(stream: AnyByteReceiveStream) -> AsyncIterator[bytes]:
    """Yield each line without its newline, and a last one that has none.

    Ends with the stream, also where the other side broke it off.
    """
    parts: list[bytes] = []  # of the unfinished line: joined once, so that long lines stay cheap
    while True:
        try:
            chunk = await stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            break
        first, *rest = chunk.split(b"\n")
        parts.append(first)
        for part in rest:
            yield b"".join(parts)
            parts = [part]
    if last := b"".join(parts):
        yield last
