"""Processes whose input and output are one socket, as launchers written for Node start them."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager


@contextmanager
def on_one_socket(
    command: Sequence[str], seconds: float, env: Mapping[str, str] | None = None, *, blocking: bool = True
) -> Iterator[tuple[socket.socket, subprocess.Popen[bytes]]]:
    """Yield the other end of the socket, on which nothing takes longer than `seconds`, and the process.

    Without `blocking`, the process's end is not blocking, and soon full.
    """
    ours, theirs = socket.socketpair()
    if not blocking:
        theirs.setblocking(False)
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
    with ours, theirs:
        ours.settimeout(seconds)
        with subprocess.Popen(command, env=env, stdin=theirs, stdout=theirs) as process:
            theirs.close()
            try:
                yield ours, process
            except BaseException:
                process.kill()
                raise
