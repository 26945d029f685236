"""The byte pump between an agent and a server. It parses a copy, and forwards what it was given.

A line is stored before it is forwarded, so what either side saw is in the recording even after
`kill -9`. Nothing is rewritten: unknown methods, odd ids and lines that are no JSON pass as they
are, byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable

import anyio
from anyio.abc import AnyByteReceiveStream, AnyByteSendStream

Store = Callable[[bytes], object]
"""Called with each raw line, terminator included, before it is forwarded."""


async def pump(source: AnyByteReceiveStream, sink: AnyByteSendStream, store: Store) -> None:
    """Forward whole lines until `source` ends, then what is left of an unfinished one."""
    unfinished = bytearray()
    try:
        async for chunk in source:
            end = chunk.rfind(b"\n") + 1
            if end == 0:
                unfinished += chunk
                continue
            lines = bytes(unfinished) + chunk[:end]
            unfinished = bytearray(chunk[end:])
            for line in _lines(lines):
                store(line)
            await sink.send(lines)
        if unfinished:
            store(bytes(unfinished))
            await sink.send(bytes(unfinished))
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        pass  # one side went away: the other one is told by the caller


def _lines(block: bytes) -> list[bytes]:
    """Split after each newline only: a carriage return alone ends no JSON-RPC line."""
    return [line + b"\n" for line in block.split(b"\n")[:-1]]
