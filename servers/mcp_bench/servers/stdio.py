"""The MCP server on a process's standard input and output."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import anyio
from anyio.abc import ObjectStream

from mcp_bench.servers.mcp_server import OnExecute, serve
from mcp_bench.servers.world_session import WorldSession

CHUNK = 65536


async def serve_stdio(session: WorldSession, *, name: str, on_execute: OnExecute | None = None) -> None:
    """Serve until the client closes its end; see `serve`."""
    with claimed_stdio() as stream:
        await serve(session, stream, name=name, on_execute=on_execute)


class FileDescriptors(ObjectStream[bytes]):
    """A pair of blocking file descriptors as a stream; each operation runs in a worker thread."""

    def __init__(self, source: int, sink: int) -> None:
        self._source = source
        self._sink = sink

    async def receive(self) -> bytes:
        data = await anyio.to_thread.run_sync(os.read, self._source, CHUNK)
        if not data:
            raise anyio.EndOfStream
        return data

    async def send(self, item: bytes) -> None:
        await anyio.to_thread.run_sync(self._write, item)

    def _write(self, item: bytes) -> None:
        rest = memoryview(item)
        try:
            while rest:
                rest = rest[os.write(self._sink, rest) :]
        except OSError as error:
            raise anyio.BrokenResourceError from error

    async def send_eof(self) -> None:
        """The descriptors are the caller's to close."""

    async def aclose(self) -> None:
        """The descriptors are the caller's to close."""


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
