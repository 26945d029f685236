"""Who is at the other end of a Unix socket (SO_PEERCRED, see unix(7))."""

from __future__ import annotations

import socket
import struct
from pathlib import Path

from anyio.abc import SocketAttribute, SocketStream


def peer_pid(stream: SocketStream) -> int:
    """Return the id of the process that connected."""
    raw = stream.extra(SocketAttribute.raw_socket)
    size = struct.calcsize("3i")
    pid, _uid, _gid = struct.unpack("3i", raw.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return int(pid)


def descends(pid: int, root: int) -> bool:
    """Whether `pid` is `root` or below it. A process that is gone descends from nobody."""
    while pid not in (0, root):
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])
        except OSError:
            return False
    return pid == root
