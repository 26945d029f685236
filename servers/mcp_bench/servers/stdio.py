"""The MCP server on a process's standard input and output."""

from __future__ import annotations

import os
import select
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import anyio
from anyio.abc import ObjectStream

from mcp_bench.servers.mcp_server import OnExecute, serve
from mcp_bench.servers.tool_session import Prompts, ToolSession

CHUNK = 65536


async def serve_stdio(
    session: ToolSession, *, name: str, on_execute: OnExecute | None = None, prompts: Prompts | None = None
) -> None:
    """Serve until the client closes its end; see `serve`."""
    with claimed_stdio() as stream:
        await serve(session, stream, name=name, on_execute=on_execute, prompts=prompts)


class FileDescriptors(ObjectStream[bytes]):
    """A pair of blocking file descriptors as a stream.

    What is ready is read and written at once, and waited for by the event loop: a worker thread costs
    50 us each time. The descriptors stay blocking, since other processes may share what they refer to.
    """

    def __init__(self, source: int, sink: int) -> None:
        self._source = source
        self._sink = sink
        self._readable = poller(source, select.POLLIN)
        self._writable = poller(sink, select.POLLOUT)

    async def receive(self) -> bytes:
        if self._readable is None:
            data = await anyio.to_thread.run_sync(os.read, self._source, CHUNK)
        else:
            await anyio.lowlevel.checkpoint()
            if not self._readable.poll(0):
                await anyio.wait_readable(self._source)
            data = os.read(self._source, CHUNK)
        if not data:
            raise anyio.EndOfStream
        return data

    async def send(self, item: bytes) -> None:
        rest = memoryview(item)
        try:
            # what is writable takes this much without blocking; the rest may block, and does so in a thread
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
            rest = rest[os.write(self._sink, rest) :]

    async def send_eof(self) -> None:
        """The descriptors are the caller's to close."""

    async def aclose(self) -> None:
        """The descriptors are the caller's to close."""


def poller(descriptor: int, event: int) -> select.poll | None:
    """Return what tells whether a descriptor is ready, None where readiness is not told (a file)."""
    kind = os.fstat(descriptor).st_mode
    if not (stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind) or os.isatty(descriptor)):
        return None
    poll = select.poll()
    poll.register(descriptor, event)
    return poll


@contextmanager
def claimed_stdio() -> Iterator[FileDescriptors]:
    """Take descriptors 0 and 1 for the wire, so that a stray print goes to stderr instead."""
    sys.stdout.flush()
    wire_in, wire_out = os.dup(0), os.dup(1)
    with open(os.devnull, "rb") as nothing:  # noqa: PTH123 - a descriptor is all we need
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    try:
        yield FileDescriptors(wire_in, wire_out)
    finally:
        sys.stdout.flush()
        for private, standard in ((wire_in, 0), (wire_out, 1)):
            os.dup2(private, standard)
            os.close(private)
