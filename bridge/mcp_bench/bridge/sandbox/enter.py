"""Start an agent inside a running sandbox, beside its world's commands, or open a relay's listener there.

The supervisor runs `python -I -S enter.py FD`, as it runs confine.py outside. The socket FD delivers a JSON
document; `door` in it describes the sandbox: what its keeper got (`keeper.Spec`) and `supervisor`, the
keeper's. An agent also has:
- `argv`, and `folder` in the sandbox, where it starts,
- `read`, `write`: paths of the machine that it gets at the same places, the former read-only,
- `masked`: paths below them that it must not see; what is named below one of these is there again,
- `links`: `[path, target]` of symbolic links to them.
Only this agent gets these mounts: the sandbox's other processes, and those that grade, have other mount
namespaces. The agent has the rights of a command in the sandbox (process.py) and no more. The reply is
`ready`, followed by an error text if the program does not start.

With `listen` instead, the reply is a socket that listens on the sandbox's own loopback: the referee accepts
connections there, and nothing of it is reachable but this port. Standard library only.
"""

import ctypes
import json
import os
import signal
import socket
import struct
import sys
from contextlib import suppress
from typing import Any

ROOT = __file__.rsplit("/", 4)[0]
sys.path.append(ROOT)
from mcp_bench.bridge.isolation import confine  # noqa: E402
from mcp_bench.bridge.process.descendants import descendants  # noqa: E402
from mcp_bench.bridge.sandbox import kernel  # noqa: E402
from mcp_bench.bridge.sandbox.process import become_command  # noqa: E402

sys.path.remove(ROOT)

LOOPBACK = "127.0.0.1"
BACKLOG = 1024
RDONLY, NOSUID, NODEV = 0x1, 0x2, 0x4
"""Attributes of a mount (mount_setattr(2))."""
MASK = "mode=755,size=1m"


def first_process(supervisor: int) -> int:
    """Return the process that is number 1 in the sandbox of a keeper.

    Raises:
        OSError: the sandbox has ended.
    """
    for pid in descendants(supervisor):
        try:
            with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
                numbers = next((line.split()[1:] for line in file if line.startswith("NSpid:")), [])
        except OSError:
            continue  # it has ended
        if len(numbers) > 1 and numbers[-1] == "1":
            return pid
    raise OSError(0, "the sandbox has ended")


def opened(first: int, name: str) -> int:
    return os.open(f"/proc/{first}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)


def listener(door: "dict[str, Any]") -> socket.socket:
    """Return a socket that listens on the loopback of the sandbox."""
    first = first_process(door["supervisor"])
    user, network = opened(first, "user"), opened(first, "net")
    kernel.enter(user)
    kernel.enter(network)
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.bind((LOOPBACK, 0))
    listening.listen(BACKLOG)
    return listening


def trees(spec: "dict[str, Any]") -> "dict[str, int]":
    """Return a mount of each path that the agent gets, without a place yet."""
    found = {}
    for path in (*spec["read"], *spec["write"]):
        held = os.open(path, os.O_PATH | os.O_CLOEXEC)
        found[path] = tree = kernel.copied(held, below=True)
        os.close(held)
        wanted = NOSUID | NODEV | (0 if path in spec["write"] else RDONLY)
        attributes = struct.pack("QQQQ", wanted, 0, 0, 0)
        flags = kernel.AT_EMPTY_PATH | kernel.AT_RECURSIVE
        size = ctypes.c_size_t(len(attributes))
        confine.checked(
            confine.libc.syscall(kernel.MOUNT_SETATTR, tree, b"", flags, attributes, size), "mount_setattr"
        )
    return found


def enter(spec: "dict[str, Any]") -> None:
    """Join the sandbox, and add what only this agent sees. Children are in its process namespace.

    Raises:
        OSError: the sandbox has ended, or the kernel refused.
    """
    door = spec["door"]
    first = first_process(door["supervisor"])
    spaces = {name: opened(first, name) for name in ("user", "ipc", "uts", "cgroup", "net", "pid", "mnt")}
    root = os.open(f"/proc/{first}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    folders = {path: os.path.isdir(path) for path in (*spec["read"], *spec["write"], *spec["masked"])}
    for group in door["cgroups"]:
        with open(f"{group}/cgroup.procs", "w", encoding="ascii") as file:
            file.write("0")
    user = spaces.pop("user")
    if door["uid"] is None:
        kernel.enter(user)  # its owner may copy mounts only as its root
    kernel.private_mounts()
    copies = trees(spec)
    if door["uid"] is not None:
        confine.become(door["uid"])
        kernel.enter(user)
    become_root()
    for place in spaces.values():
        kernel.enter(place)
        os.close(place)
    os.fchdir(root)
    os.chroot(".")
    os.chdir("/")
    kernel.private_mounts()
    os.umask(0o022)
    for path in sorted(folders):
        make_place(path, folder=folders[path])
        if path in copies:
            kernel.place(copies[path], path)
        elif folders[path]:
            confine.mount("tmpfs", path, "tmpfs", confine.MS_NOSUID | confine.MS_NODEV, MASK)
        else:
            confine.mount("/dev/null", path, "", confine.MS_BIND)
    for path in spec["masked"]:
        if folders[path]:
            confine.mount("none", path, "", kernel.MS_REMOUNT | confine.MS_BIND | confine.MS_RDONLY)
    for path, target in spec["links"]:
        if not os.path.lexists(path):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.symlink(target, path)


def become_root() -> None:
    with suppress(PermissionError):  # a namespace of one user has no right to set them
        os.setgroups([])
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)


def make_place(path: str, *, folder: bool) -> None:
    """Make what a mount can cover, where there is nothing yet."""
    if os.path.exists(path):
        return
    os.makedirs(path if folder else os.path.dirname(path), exist_ok=True)
    if not folder:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))


def run(spec: "dict[str, Any]", control: socket.socket) -> int:
    """Start the agent in the sandbox, and wait for its end; return its exit code, negative for a signal."""
    enter(spec)
    kernel.hide_memory()
    pid = os.fork()
    if pid == 0:
        try:
            become_command(spec["folder"], spec["door"])
            confine.checked(confine.libc.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")
            control.sendall(b"ready\n")
            os.execvp(spec["argv"][0], spec["argv"])
        except Exception as error:
            words = getattr(error, "strerror", None) or str(error)
            control.sendall(f"{spec['argv'][0]}: {words}\n".encode())
        finally:
            os._exit(1)
    control.close()
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    received = b""
    while chunk := control.recv(1 << 16):
        received += chunk
    spec = json.loads(received)
    try:
        if "listen" in spec:
            listening = listener(spec["door"])
            socket.send_fds(control, [b"ready\n"], [listening.fileno()])
            return
        code = run(spec, control)
    except OSError as error:
        control.sendall(f"ready\nthe sandbox: {error.strerror or error}\n".encode())
        sys.exit(1)
    if code < 0:
        signal.signal(-code, signal.SIG_DFL) if -code != signal.SIGKILL else None
        os.kill(os.getpid(), -code)
    sys.exit(code)


if __name__ == "__main__":
    main()
