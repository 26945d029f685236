"""Have a script run in a fork of the tests' warm process, and end as it ends. See forked.py.

Run as `python -I -S fork_launcher.py SOCKET SCRIPT [ARGS]`: standard library only, so that it starts quickly.
"""

import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any


def send(connection: socket.socket, request: dict[str, Any], streams: tuple[int, int, int]) -> None:
    """Send a request with the standard streams of the new process."""
    socket.send_fds(connection, [json.dumps(request).encode()], streams)


def main() -> None:
    path, script, *args = sys.argv[1:]
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.connect(path)
        send(
            connection,
            {"run": script, "args": args, "env": dict(os.environ), "cwd": str(Path.cwd())},
            (0, 1, 2),
        )
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):  # so that readers see the end of the script's output
            os.dup2(nowhere, stream)
        pid = int(connection.recv(64))
        signal.signal(signal.SIGTERM, lambda *_: os.kill(pid, signal.SIGTERM))
        code = os.waitstatus_to_exitcode(int(connection.recv(64)))
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


if __name__ == "__main__":
    main()
