"""The process at the other end of a Unix socket (SO_PEERCRED, SO_PEERPIDFD, see unix(7))."""

from __future__ import annotations

import os
import select
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from anyio.abc import SocketAttribute, SocketStream

SO_PEERPIDFD = getattr(socket, "SO_PEERPIDFD", 77)
"""Since Linux 6.5. This number is valid on all architectures except hppa and sparc."""


@dataclass(frozen=True, slots=True)
class Peer:
    """The process that connected, even if another process holds the socket by now."""

    pid: int
    handle: int | None
    """A pidfd, or None if the kernel does not provide one."""

    @property
    def is_alive(self) -> bool:
        """Whether `pid` still refers to the process that connected."""
        if self.handle is None:
            return Path(f"/proc/{self.pid}").exists()
        poll = select.poll()
        poll.register(self.handle, select.POLLIN)
        return not poll.poll(0)

    def __str__(self) -> str:
        try:
            argv = Path(f"/proc/{self.pid}/cmdline").read_bytes().split(b"\0")
            words = " ".join(word.decode(errors="replace") for word in argv if word)[:120]
        except OSError:
            words = ""
        return f"process {self.pid} ({words or 'gone'})"


@contextmanager
def peer_of(stream: SocketStream) -> Iterator[Peer]:
    """Yield the process that connected."""
    raw = stream.extra(SocketAttribute.raw_socket)
    size = struct.calcsize("3i")
    pid, _uid, _gid = struct.unpack("3i", raw.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    try:
        handle = raw.getsockopt(socket.SOL_SOCKET, SO_PEERPIDFD)
    except OSError:  # an older kernel, or the process has ended
        handle = None
    try:
        yield Peer(pid, handle)
    finally:
        if handle is not None:
            os.close(handle)


def has_hung_up(stream: SocketStream) -> bool:
    """Return whether the other end is closed."""
    poll = select.poll()
    poll.register(stream.extra(SocketAttribute.raw_socket), 0)  # POLLHUP is always reported
    return bool(poll.poll(0))


def ancestors(peer: Peer) -> list[int]:
    """Return the ids of a process and all its ancestors, or nothing if the process has ended.

    The kernel reuses ids. So each parent must have started before its child, and the peer must still be alive
    at the end; otherwise another process may have its id by then.
    """
    found: list[int] = []
    pid, child_started = peer.pid, None
    while pid > 0:
        try:
            fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        except OSError:
            return []
        parent, started = int(fields[1]), int(fields[19])
        if child_started is not None and started > child_started:
            return []
        found.append(pid)
        pid, child_started = parent, started
    return found if peer.is_alive else []
