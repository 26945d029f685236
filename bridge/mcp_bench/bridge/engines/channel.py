"""The lines that a process of a run sends to the one that started it: JSON documents on a socket.

Referee processes, Ray's driver and the process behind `mcp_bench.api` have one each. What the lines say is in
`mcp_bench.bridge.engines.messages` and `mcp_bench.bridge.run.events`.
"""

from __future__ import annotations

import io
import json
import os
import queue
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from mcp_bench.servers.errors import bench_errors

POLL_SECONDS = 1.0


def line(document: dict[str, Any]) -> bytes:
    return json.dumps(document).encode() + b"\n"


@contextmanager
def channel_on(control: socket.socket) -> Iterator[Channel]:
    """Open the channel of a process of a run. An error of ours is its last line; any other is raised."""
    channel = Channel(control, os.getppid())
    try:
        yield channel
    except BaseException as error:
        texts = dict.fromkeys(str(failure) for failure in bench_errors(error))
        if not texts:
            sys.stderr = sys.__stderr__  # a log file
            raise
        channel.send({"error": "\n".join(texts)})
    finally:
        channel.close()


class Channel:
    """Sends lines to the process that started this one, from a thread: a slow reader never stops a referee.

    Args:
        control: the socket.
        caller: id of that process.
    """

    def __init__(self, control: socket.socket, caller: int) -> None:
        self._control = control
        self._caller = caller
        self._waiting: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._sender = threading.Thread(target=self._send_all, name="events", daemon=True)
        self._sender.start()

    def send(self, document: dict[str, Any]) -> None:
        self._waiting.put(line(document))

    def close(self) -> None:
        """Send what is left. A caller that is busy or suspended is waited for."""
        self._waiting.put(None)
        while self._sender.is_alive() and os.getppid() == self._caller:
            self._sender.join(POLL_SECONDS)

    def _send_all(self) -> None:
        with suppress(OSError):  # the caller is gone
            while (data := self._waiting.get()) is not None:
                self._control.sendall(data)


class Lines(io.RawIOBase):
    """A stderr whose lines are sent to the caller."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._begun = b""

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        *whole, self._begun = (self._begun + bytes(data)).split(b"\n")
        for text in whole:
            self._channel.send({"line": text.decode(errors="replace")})
        return len(data)

    def text(self) -> io.TextIOWrapper:
        return io.TextIOWrapper(io.BufferedWriter(self), "utf-8", "backslashreplace", line_buffering=True)
