"""Processes whose input and output are one socket, as launchers written for Node start them."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager


@contextmanager
def on_one_socket(
    command: Sequence[str], seconds: float, env: Mapping[str, str] | None = None
) -> Iterator[tuple[socket.socket, subprocess.Popen[bytes]]]:
    """Yield the other end of the socket, on which nothing takes longer than `seconds`, and the process."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(seconds)
        with subprocess.Popen(command, env=env, stdin=theirs, stdout=theirs) as process:
            theirs.close()
            try:
                yield ours, process
            except BaseException:
                process.kill()
                raise
