"""Standard input and output as byte streams that can be cancelled while they wait.

A read in a thread could not be given up: a client that is told to end may hold our input open. So
nothing is read or written before the descriptor is ready, and never more than fits at once.
"""

from __future__ import annotations

import os
import select
import stat
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream

CHUNK = 1 << 16


class Input(ByteReceiveStream):
    """Reads a pipe, socket, terminal or file."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._waits = not stat.S_ISREG(os.fstat(descriptor).st_mode)

    async def receive(self, max_bytes: int = CHUNK) -> bytes:
        if self._waits:
            await anyio.wait_readable(self._descriptor)
        else:
            await anyio.lowlevel.checkpoint()
        try:
            data = os.read(self._descriptor, max_bytes)
        except OSError as error:
            raise anyio.BrokenResourceError from error
        if not data:
            raise anyio.EndOfStream
        return data

    async def aclose(self) -> None:
        os.close(self._descriptor)


class Output(ByteSendStream):
    """Writes to a pipe, socket, terminal or file."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._waits = not stat.S_ISREG(os.fstat(descriptor).st_mode)

    async def send(self, item: bytes) -> None:
        rest = memoryview(item)
        while rest:
            if self._waits:
                await anyio.wait_writable(self._descriptor)
            else:
                await anyio.lowlevel.checkpoint()
            try:
                # what is writable takes so much without blocking (POSIX, pipe(7))
                rest = rest[os.write(self._descriptor, rest[: select.PIPE_BUF]) :]
            except OSError as error:
                raise anyio.BrokenResourceError from error

    async def aclose(self) -> None:
        os.close(self._descriptor)


@asynccontextmanager
async def standard_streams() -> AsyncIterator[tuple[Input, Output]]:
    """Take descriptors 0 and 1 for the wire, for good: a stray print goes to stderr instead."""
    sys.stdout.flush()
    source, sink = Input(os.dup(0)), Output(os.dup(1))
    with open(os.devnull, "rb") as nothing:  # noqa: ASYNC230, PTH123 - a descriptor is all we need
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    async with source, sink:
        yield source, sink
