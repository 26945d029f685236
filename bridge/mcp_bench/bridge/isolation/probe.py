"""Try what an agent must not be able to do, without changing anything.

Runs as `python -I -S probe.py` inside an agent's sandbox. Reads a JSON object from stdin with the argument of
each attempt, and prints one with `[succeeded, detail]` for each. The attempts `runs`, `folder` and `server`
must succeed; all others must fail.
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
KEYCTL_GET_KEYRING_ID, KEY_SPEC_USER_KEYRING = 0, -4
IPC_PRIVATE = IPC_RMID = 0
PTRACE_SEIZE = 0x4206
"""Does not stop the other process, and detaches when this one exits."""


def read(path: str) -> str:
    """Read one byte of a file, or list a folder."""
    if os.path.isdir(path):
        return f"{len(os.listdir(path))} names"
    with open(path, "rb") as file:
        return f"{len(file.read(1))} byte"


def read_any(paths: list[str]) -> str:
    """Read one byte of any of some files."""
    for path in paths:
        try:
            return f"{path}, {read(path)}"
        except OSError:
            continue
    raise OSError(0, f"none of {len(paths)} files can be read")


def write(path: str) -> str:
    os.close(os.open(path, os.O_WRONLY))
    return "opened"


def same(process: list[int]) -> int:
    """Return the id of a process after checking its start time: a namespace can reuse the id.

    A process that /proc hides can still be there to signal.
    """
    pid, started = process
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            if int(file.read().rpartition(b")")[2].split()[19]) != started:
                raise OSError(0, "this id belongs to another process here")
    except FileNotFoundError:
        pass
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
    """Set a limit that is already set: no core files."""
    resource.prlimit(same(process), resource.RLIMIT_CORE, (0, 0))
    return "set"


def scheduling(process: list[int]) -> str:
    """Give a process the processors, the class and the priority that it has."""
    pid, done, refused = same(process), [], OSError(0, "nothing was tried")
    attempts: dict[str, Callable[[], None]] = {
        "processors": lambda: os.sched_setaffinity(pid, os.sched_getaffinity(pid)),
        "class": lambda: os.sched_setscheduler(pid, os.sched_getscheduler(pid), os.sched_getparam(pid)),
        "priority": lambda: os.setpriority(os.PRIO_PROCESS, pid, os.getpriority(os.PRIO_PROCESS, pid)),
    }
    for name, change in attempts.items():
        try:
            change()
            done.append(name)
        except OSError as error:
            refused = error
    if not done:
        raise refused
    return f"set {', '.join(done)}"


def keyring(numbers: dict[str, int]) -> str:
    """Look up the user's keyring, which outlives an episode."""
    libc = ctypes.CDLL(None, use_errno=True)
    if os.uname().machine not in numbers:
        raise OSError(0, "unknown architecture")
    if libc.syscall(numbers[os.uname().machine], KEYCTL_GET_KEYRING_ID, KEY_SPEC_USER_KEYRING, 1) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return "found"


def shared(size: int) -> str:
    """Make shared memory and a message queue that outlive an episode, and remove them."""
    libc, done = ctypes.CDLL(None, use_errno=True), []
    memory, messages = libc.shmget(IPC_PRIVATE, size, 0o600), libc.msgget(IPC_PRIVATE, 0o600)
    if memory >= 0:
        done.append("shared memory")
        libc.shmctl(memory, IPC_RMID, None)
    if messages >= 0:
        done.append("a message queue")
        libc.msgctl(messages, IPC_RMID, None)
    if not done:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return f"made {' and '.join(done)}"


def neighbour(folder: str) -> str:
    """Send a request to another episode's server, with its token if that is readable."""
    token = b"none"
    try:
        with open(os.path.join(folder, "token"), "rb") as file:
            token = file.read()
    except OSError:
        pass
    return ask(folder, token)


def server(folder: str) -> str:
    """Send a request to this episode's server."""
    with open(os.path.join(folder, "token"), "rb") as file:
        return ask(folder, file.read())


def ask(folder: str, token: bytes) -> str:
    wire = socket.socket(socket.AF_UNIX)
    wire.settimeout(SECONDS)
    wire.connect(os.path.join(folder, "socket"))
    wire.sendall(token + b"\n" + b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    if not wire.recv(1):
        raise OSError(0, "no answer")
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
    "checkout": read_any,
    "environ": environ,
    "memory": memory,
    "files": files,
    "trace": trace,
    "signal": end,
    "limits": limits,
    "scheduling": scheduling,
    "keyring": keyring,
    "shared": shared,
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
