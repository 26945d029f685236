"""The program that an agent starts as its MCP server. It connects stdin and stdout to the referee.

This file is copied into the episode's folder and runs as `python -I -S shim.py`. So it uses only the standard
library. It imports `_socket` and `_thread` in place of `socket` and `threading`, which take longer to import
than Python takes to start. The same folder holds `socket` (the episode's Unix socket) and `token`, which
becomes worthless when the episode ends. There is nothing else for the agent to find.
"""

import _socket
import _thread
import os
import select
import sys

CHUNK = 1 << 16
"""Bytes per read: the capacity of a pipe. Larger ones are mapped anew each time, at three times the cost."""


def main() -> int:
    folder = os.path.dirname(os.path.abspath(__file__))
    wire = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        with open(os.path.join(folder, "token"), "rb") as file:
            token = file.read()
        wire.connect(os.path.join(folder, "socket"))
        wire.sendall(token + b"\n")
    except OSError as error:
        print(f"this episode's server cannot be reached: {error}", file=sys.stderr)
        return 1
    _thread.start_new_thread(forward_stdin, (wire,))
    try:
        while chunk := wire.recv(CHUNK):
            write_all(1, chunk)
    except OSError:  # the agent closed our stdout, or the referee is gone
        pass
    return 0


def forward_stdin(wire: _socket.socket) -> None:
    try:
        while chunk := read(0):
            wire.sendall(chunk)
    except OSError:  # the agent has broken off (a reset socket), or the referee is gone
        pass
    try:
        wire.shutdown(_socket.SHUT_WR)  # pending answers can still arrive
    except OSError:
        pass


def read(fd: int) -> bytes:
    while True:
        try:
            return os.read(fd, CHUNK)
        except BlockingIOError:  # whoever started this process shares the open file, and can have made it so
            wait_for(fd, select.POLLIN)


def write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except BlockingIOError:
            wait_for(fd, select.POLLOUT)


def wait_for(fd: int, event: int) -> None:
    poll = select.poll()
    poll.register(fd, event)
    poll.poll()


if __name__ == "__main__":
    # os._exit, because the client may keep our stdin open, and the thread that reads it cannot be woken
    os._exit(main())
