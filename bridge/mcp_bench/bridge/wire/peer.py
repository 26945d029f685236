"""Who is at the other end of a Unix socket (SO_PEERCRED, SO_PEERPIDFD, see unix(7))."""

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
"""Linux 6.5. The number is that of all architectures but hppa and sparc."""


@dataclass(frozen=True, slots=True)
class Peer:
    """The process that connected, not whoever holds the socket by now."""

    pid: int
    handle: int | None
    """A pidfd; None where the kernel has none to give."""

    @property
    def is_there(self) -> bool:
        """Whether `pid` still means the process that connected."""
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
    """Yield who connected."""
    raw = stream.extra(SocketAttribute.raw_socket)
    size = struct.calcsize("3i")
    pid, _uid, _gid = struct.unpack("3i", raw.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    try:
        handle = raw.getsockopt(socket.SOL_SOCKET, SO_PEERPIDFD)
    except OSError:  # an older kernel, or the process is gone
        handle = None
    try:
        yield Peer(pid, handle)
    finally:
        if handle is not None:
            os.close(handle)


def has_hung_up(stream: SocketStream) -> bool:
    """Whether nobody holds the other end any more."""
    poll = select.poll()
    poll.register(stream.extra(SocketAttribute.raw_socket), 0)  # POLLHUP is told in any case
    return bool(poll.poll(0))


def ancestors(peer: Peer) -> list[int]:
    """Return the ids of a process and of all above it; of one that is gone, nothing.

    Ids are used again: whoever is taken for a parent must have started before its child, and the peer must
    still be there at the end, so that nobody has got its id meanwhile.
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
    return found if peer.is_there else []
