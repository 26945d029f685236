"""Run the MCP server on standard input and output."""

from __future__ import annotations

import os
import select
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import anyio
from anyio.abc import ObjectStream

from mcp_bench.servers.mcp_server.server import serve
from mcp_bench.servers.mcp_server.tool_session import ToolSession

CHUNK = 65536


async def serve_stdio(session: ToolSession, *, name: str) -> None:
    """Serve until the client closes its end. See `serve`."""
    with claimed_stdio() as stream:
        await serve(session, stream, name=name)


class FileDescriptors(ObjectStream[bytes]):
    """A stream over a pair of blocking file descriptors.

    It polls the descriptors, reads and writes at once when they are ready, and otherwise waits in the event
    loop: a worker thread costs 50 us each time. The descriptors stay blocking, since other processes may
    share the open files.
    """

    def __init__(self, source: int, sink: int) -> None:
        self._source = source
        self._sink = sink
        self._readable = poller(source, select.POLLIN)
        self._writable = poller(sink, select.POLLOUT)

    async def receive(self) -> bytes:
        try:
            if self._readable is None:
                data = await anyio.to_thread.run_sync(os.read, self._source, CHUNK)
            else:
                await anyio.lowlevel.checkpoint()
                if not self._readable.poll(0):
                    await anyio.wait_readable(self._source)
                data = os.read(self._source, CHUNK)
        except OSError as error:
            raise anyio.BrokenResourceError from error
        if not data:
            raise anyio.EndOfStream
        return data

    async def send(self, item: bytes) -> None:
        rest = memoryview(item)
        try:
            # a writable descriptor takes PIPE_BUF bytes without blocking; a long rest is written in a thread
            while self._writable is not None and 0 < len(rest) <= CHUNK:
                if not self._writable.poll(0):
                    await anyio.wait_writable(self._sink)
                rest = rest[os.write(self._sink, rest[: select.PIPE_BUF]) :]
            if rest:
                await anyio.to_thread.run_sync(self._write, rest)
        except OSError as error:
            raise anyio.BrokenResourceError from error

    def _write(self, rest: memoryview) -> None:
        while rest:
            try:
                rest = rest[os.write(self._sink, rest) :]
            except BlockingIOError:  # whoever started this process shares the open file, and made it so
                select.select([], [self._sink], [])

    async def send_eof(self) -> None:
        """Do nothing: the caller closes the descriptors."""

    async def aclose(self) -> None:
        """Do nothing: the caller closes the descriptors."""


def poller(descriptor: int, event: int) -> select.poll | None:
    """Return a poll object for a descriptor, or None if it cannot be polled (a regular file)."""
    kind = os.fstat(descriptor).st_mode
    if not (stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind) or os.isatty(descriptor)):
        return None
    poll = select.poll()
    poll.register(descriptor, event)
    return poll


@contextmanager
def claimed_stdio() -> Iterator[FileDescriptors]:
    """Take over descriptors 0 and 1 for the protocol, so stray prints go to stderr."""
    sys.stdout.flush()
    wire_in, wire_out = os.dup(0), os.dup(1)
    with open(os.devnull, "rb") as nothing:  # noqa: PTH123 - only the descriptor is needed
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    try:
        yield FileDescriptors(wire_in, wire_out)
    finally:
        sys.stdout.flush()
        for private, standard in ((wire_in, 0), (wire_out, 1)):
            os.dup2(private, standard)
            os.close(private)
