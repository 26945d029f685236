"""Tries, as an agent would, what an agent must not be able to do; nothing is changed by it.

Run as `python -I -S probe.py` inside the sandbox that an agent is going to run in. On stdin a JSON object: of
each attempt, what it needs; on stdout one with `[whether it succeeded, what came of it]` of each. What must
work is told in the same way, as `runs`, `folder` and `server`.
"""

import ctypes
import json
import os
import resource
import socket
import sys
from collections.abc import Callable
from typing import Any

SECONDS = 5.0
PTRACE_SEIZE = 0x4206
"""Does not stop the other process, and ends with this one."""


def read(path: str) -> str:
    """Read a byte of a file, or the names in a folder."""
    if os.path.isdir(path):
        return f"{len(os.listdir(path))} names"
    with open(path, "rb") as file:
        return f"{len(file.read(1))} byte"


def write(path: str) -> str:
    os.close(os.open(path, os.O_WRONLY))
    return "opened"


def same(process: list[int]) -> int:
    """Return the id of a process that is still the one that was meant: ids start anew in a namespace."""
    pid, started = process
    with open(f"/proc/{pid}/stat", "rb") as file:
        if int(file.read().rpartition(b")")[2].split()[19]) != started:
            raise OSError(0, "another process has this id here")
    return pid


def environ(process: list[int]) -> str:
    pid = same(process)
    with open(f"/proc/{pid}/environ", "rb") as file:
        return f"{len(file.read())} bytes"


def memory(process: list[int]) -> str:
    pid = same(process)
    for name in ("mem", "maps"):
        with open(f"/proc/{pid}/{name}", "rb"):
            pass
    return "opened"


def files(process: list[int]) -> str:
    pid = same(process)
    folder = f"/proc/{pid}/fd"
    targets = [os.readlink(f"{folder}/{name}") for name in os.listdir(folder)]
    return f"{len(targets)} open files"


def trace(process: list[int]) -> str:
    pid = same(process)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(PTRACE_SEIZE, pid, None, None):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return "attached"


def end(process: list[int]) -> str:
    pid = same(process)
    os.kill(pid, 0)
    return "a signal would arrive"


def limits(process: list[int]) -> str:
    """Set what is set already: no core files."""
    resource.prlimit(same(process), resource.RLIMIT_CORE, (0, 0))
    return "set"


def neighbour(folder: str) -> str:
    """Ask another episode's server something, with its token where that can be read."""
    token = b"none"
    try:
        with open(os.path.join(folder, "token"), "rb") as file:
            token = file.read()
    except OSError:
        pass
    return ask(folder, token)


def server(folder: str) -> str:
    """Ask this episode's server something."""
    with open(os.path.join(folder, "token"), "rb") as file:
        return ask(folder, file.read())


def ask(folder: str, token: bytes) -> str:
    wire = socket.socket(socket.AF_UNIX)
    wire.settimeout(SECONDS)
    wire.connect(os.path.join(folder, "socket"))
    wire.sendall(token + b"\n" + b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    if not wire.recv(1):
        raise OSError(0, "nothing was answered")
    return "answered"


def runs(program: str) -> str:
    if not os.access(program, os.R_OK | os.X_OK):
        raise OSError(0, f"{program} cannot be started")
    return program


def folder(path: str) -> str:
    place = os.path.join(path, "probe")
    with open(place, "x", encoding="ascii") as file:
        file.write("x")
    os.unlink(place)
    return "written"


ATTEMPTS: dict[str, Callable[[Any], str]] = {
    "home": read,
    "sealed": read,
    "recording": write,
    "benchmark": read,
    "environ": environ,
    "memory": memory,
    "files": files,
    "trace": trace,
    "signal": end,
    "limits": limits,
    "kernel": write,
    "neighbour": read,
    "neighbour_socket": neighbour,
    "server": server,
    "runs": runs,
    "folder": folder,
}


def attempt(name: str, needs: Any) -> tuple[bool, str]:
    try:
        return True, ATTEMPTS[name](needs)
    except OSError as error:
        return False, error.strerror or str(error)


if __name__ == "__main__":
    wanted = json.load(sys.stdin)
    print(json.dumps({name: attempt(name, needs) for name, needs in wanted.items()}))
