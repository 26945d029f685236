"""Which process is at the other end of a TCP connection from this machine (/proc/net/tcp, see proc(5)).

TCP has no SO_PEERCRED. What there is, is the socket's inode, and the open files of the processes that may
have it. Both may change while they are read, so nobody counts as foreign before a second and a third look;
what cannot be read (a process that is closed to its own user) decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal
from weakref import WeakSet

import anyio
from starlette.types import Scope

from mcp_bench.bridge.http.listen import TCP, TcpConnection
from mcp_bench.bridge.process.supervisor import descendants, parents

TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
Origin = Literal["below", "foreign", "gone"]
"""`gone`: nobody holds the socket any more, or waits for an answer."""
LOOKS = 3
LOOK_SECONDS = 0.05


class TcpPeers:
    """Says whether connections to a port of ours come from below a process."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._known: WeakSet[TcpConnection] = WeakSet()
        """Connections that came from below the process: looking takes some hundredths of a second."""

    async def origin(self, scope: Scope, root: int) -> Origin:
        """Say whether the connection that a request came on belongs to a process below `root`."""
        if (connection := scope[TCP]) in self._known:
            return "below"
        (_, port), inode = scope["client"], None
        for look in range(LOOKS):
            if look:
                await anyio.sleep(LOOK_SECONDS)
            inode = await anyio.to_thread.run_sync(socket_inode, port, self._port)
            if inode is None:
                continue
            if await anyio.to_thread.run_sync(holds, root, inode):
                self._known.add(connection)
                return "below"
        return "gone" if inode is None else "foreign"


def socket_inode(local: int, remote: int) -> str | None:
    """Return the inode of the socket between two ports of this machine, as the side at `local` has it."""
    ends = (f":{local:04X}", f":{remote:04X}")
    for table in TABLES:
        try:
            with open(table, encoding="ascii") as rows:  # noqa: PTH123 - opened for every request
                next(rows)
                for row in rows:
                    fields = row.split(None, 10)
                    if fields[1].endswith(ends[0]) and fields[2].endswith(ends[1]) and fields[9] != "0":
                        return fields[9]
        except OSError:
            continue  # no IPv6 here
    return None


def owners(local: int, remote: int) -> set[int]:
    """Return the processes that hold the socket, as far as can be seen, and all above them."""
    inode, table = socket_inode(local, remote), parents()
    found: set[int] = set()
    for pid in table if inode else ():
        with suppress(OSError):
            if f"socket:[{inode}]" in _files(pid):
                while pid and pid not in found:
                    found.add(pid)
                    pid = table.get(pid, 0)
    return found


def holds(root: int, inode: str) -> bool:
    """Whether a process below `root` has the socket open, or may have it: its files cannot be read."""
    return any(_has(pid, f"socket:[{inode}]") for pid in descendants(root))


def _has(pid: int, socket: str) -> bool:
    try:
        return socket in _files(pid)
    except PermissionError:
        return not _has_ended(pid)
    except OSError:
        return False  # it ended meanwhile


def _has_ended(pid: int) -> bool:
    """Whether a process is gone, or only waits to be reaped: that has no open files."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] == b"Z"
    except OSError:
        return True


def _files(pid: int) -> Iterator[str]:
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            yield str(entry.readlink())
        except FileNotFoundError:
            continue  # closed meanwhile
