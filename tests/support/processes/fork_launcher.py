"""Have a script or a module run in a fork of the tests' warm process, and end as it ends. See forked.py.

Run as `python -I -S fork_launcher.py SOCKET RUN [ARGS]`: standard library only, so that it starts quickly. RUN is
a file `*.py` or the name of a module.
"""

import json
import os
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

PASSED_ON = (signal.SIGTERM, signal.SIGINT)


def send(connection: socket.socket, request: dict[str, Any], streams: tuple[int, int, int]) -> None:
    """Send a request with the standard streams of the new process."""
    socket.send_fds(connection, [json.dumps(request).encode()], streams)


def main() -> None:
    path, run, *args = sys.argv[1:]
    signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)  # until it is known to whom
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.connect(path)
        send(
            connection,
            {"run": run, "args": args, "env": dict(os.environ), "cwd": str(Path.cwd())},
            (0, 1, 2),
        )
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):  # so that readers see the end of its output
            os.dup2(nowhere, stream)
        pid = int(connection.recv(64))

        def pass_on(number: int, _: object) -> None:
            with suppress(ProcessLookupError):  # it has just ended
                os.kill(pid, number)

        for number in PASSED_ON:
            signal.signal(number, pass_on)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
        code = os.waitstatus_to_exitcode(int(connection.recv(64)))
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


if __name__ == "__main__":
    main()
