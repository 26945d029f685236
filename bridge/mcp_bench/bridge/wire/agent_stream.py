"""The bytes of an admitted connection, read and written by the event loop's own transport.

anyio's stream of a Unix socket registers for each read, asks the kernel for both addresses, and passes
through the event loop once more for each read and write. That was a fifth of the referee's time.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Self

import anyio

READ = 1 << 16
"""Bytes per read, and the most that wait for the reader: then the sender has to wait."""


class AgentStream(asyncio.BufferedProtocol):
    """A byte stream over a connected socket. One task may read it, and several may write in turn."""

    def __init__(self, begun: bytes) -> None:
        """Set up a stream. `begun` was read from the socket already; use `over` to open one."""
        self._received = bytearray(begun)
        self._buffer = memoryview(bytearray(READ))
        self._ended = False
        self._broken = False
        self._paused = False
        self._reader: asyncio.Future[None] | None = None
        self._writer: asyncio.Future[None] | None = None
        self._transport: asyncio.Transport

    @classmethod
    async def over(cls, connected: socket.socket, begun: bytes) -> Self:
        """Return the stream of a socket, which nothing else may use until it is closed."""
        loop = asyncio.get_running_loop()
        transport, stream = await loop.connect_accepted_socket(lambda: cls(begun), connected)
        transport.set_write_buffer_limits(high=0)  # `send` returns when the kernel has every byte
        return stream

    def close(self) -> None:
        """Drop what was not sent or read, and let go of the socket."""
        self._transport.abort()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def receive(self, max_bytes: int = READ) -> bytes:
        """Return the next bytes.

        Raises:
            EndOfStream: there are no more.
            BrokenResourceError: the connection broke.
        """
        if not self._received and not self._ended:
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        if self._received:
            chunk = bytes(self._received[:max_bytes])
            del self._received[:max_bytes]
            if self._paused and not self._received:
                self._paused = False
                self._transport.resume_reading()
            return chunk
        raise anyio.BrokenResourceError if self._broken else anyio.EndOfStream

    async def send(self, item: bytes) -> None:
        """Send bytes. Return when the kernel has all of them.

        Raises:
            BrokenResourceError: the other side is gone.
        """
        if not self._transport.is_closing():
            self._transport.write(item)
        if self._transport.is_closing():  # perhaps since this write
            raise anyio.BrokenResourceError
        if self._writer is not None:
            await asyncio.shield(self._writer)  # others may wait for it, too

    # Called by the event loop --------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - of a connected socket
        self._transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._received += self._buffer[:nbytes]
        if len(self._received) >= READ and not self._paused:
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> bool:
        """Keep the other direction open: answers to open calls can still be sent."""
        self._ended = True
        self._wake()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self._broken = self._broken or exc is not None
        self._ended = True
        self._wake()
        if self._writer is not None and not self._writer.done():
            self._writer.set_exception(anyio.BrokenResourceError())
            self._writer.exception()  # nobody may be waiting
        self._writer = None

    def pause_writing(self) -> None:
        self._writer = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        if self._writer is not None and not self._writer.done():
            self._writer.set_result(None)
        self._writer = None

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)
        self._reader = None
