"""Finds the process at the other end of a local TCP connection (/proc/net/tcp, see proc(5)).

TCP has no SO_PEERCRED. Instead, this module looks up the inode of the socket, and searches the open files of
processes for it. Both may change in the meantime, so a peer counts as foreign only after three attempts. A
process whose files are not readable is never evidence against the peer.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal
from weakref import WeakSet

import anyio
from starlette.types import Scope

from mcp_bench.bridge.http.listen import TCP, TcpConnection
from mcp_bench.bridge.process.descendants import descendants, parents

TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
Origin = Literal["below", "foreign", "gone"]
"""`gone` means that no process holds the socket any more."""
ATTEMPTS = 3
ATTEMPT_SECONDS = 0.05


class TcpPeers:
    """Find out whether connections to a local port come from the descendants of a process."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._known: WeakSet[TcpConnection] = WeakSet()
        """Connections known to come from a descendant: a search takes some hundredths of a second."""

    async def origin(self, scope: Scope, root: int) -> Origin:
        """Return whether the connection of a request belongs to `root` or one of its descendants."""
        if (connection := scope[TCP]) in self._known:
            return "below"
        inode = None
        for attempt in range(ATTEMPTS):
            if attempt:
                await anyio.sleep(ATTEMPT_SECONDS)
            inode = await anyio.to_thread.run_sync(socket_inode, scope["client"], self._port)
            if inode is None:
                continue
            if await anyio.to_thread.run_sync(holds, root, inode):
                self._known.add(connection)
                return "below"
        return "gone" if inode is None else "foreign"


def socket_inode(local: tuple[str, int], remote: int) -> str | None:
    """Return the inode of the socket at an IPv4 address that is connected to 127.0.0.1:`remote`, if any.

    The addresses count, too: a process can bind another socket to 127.0.0.2 and the same port.
    """
    ends = _shown(*local), _shown("127.0.0.1", remote)
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


def _shown(host: str, port: int) -> str:
    """Return an end as the table shows it; in the table of IPv6, ::ffff:HOST ends with it."""
    return f"{int.from_bytes(socket.inet_aton(host), sys.byteorder):08X}:{port:04X}"


def owners(local: tuple[str, int], remote: int) -> set[int]:
    """Return the processes that visibly hold the socket, and all their ancestors."""
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
    """Return whether a descendant of `root` has the socket open, or may have it: its files are unreadable."""
    return any(_has(pid, f"socket:[{inode}]") for pid in descendants(root))


def _has(pid: int, name: str) -> bool:
    try:
        return name in _files(pid)
    except PermissionError:
        return not _has_ended(pid)
    except OSError:
        return False  # it has ended


def _has_ended(pid: int) -> bool:
    """Return whether a process is gone or a zombie, which has no open files."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] == b"Z"
    except OSError:
        return True


def _files(pid: int) -> Iterator[str]:
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            yield str(link.readlink())
        except FileNotFoundError:
            continue  # closed by now
