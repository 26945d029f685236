"""Try, from inside a sandbox, what a command in it must not be able to do. Nothing is changed.

The attempts run in a fork of `inside.py` that has given up what a command gives up. Standard library only.
"""

import ctypes
import json
import os
import select
import signal
import socket
from collections.abc import Callable
from typing import Any

from mcp_bench.bridge.isolation import confine, probe
from mcp_bench.bridge.isolation.confine import ARCHITECTURES, REFUSED
from mcp_bench.bridge.sandbox import kernel

SECONDS = 5.0
NAMESPACES = ("ipc", "mnt", "net", "pid", "user", "uts")
CHAR_DEVICE, ROOT_DISK = 0o020600, os.makedev(1, 1)


def namespaces(machine: "dict[str, str]") -> str:
    """Find a namespace that the sandbox shares with the referee."""
    shared = [name for name, link in machine.items() if os.readlink(f"/proc/self/ns/{name}") == link]
    if not shared:
        raise OSError(0, "all are its own")
    return f"shares {', '.join(shared)}"


def mounted(_: Any) -> str:
    confine.mount("tmpfs", "/mnt", "tmpfs", 0)
    return "mounted"


def new_user(_: Any) -> str:
    kernel.unshare(confine.CLONE_NEWUSER)
    return "made a user namespace"


def device(_: Any) -> str:
    os.mknod("/tmp/probe-device", CHAR_DEVICE, ROOT_DISK)
    return "made a device"


def chroot(_: Any) -> str:
    os.chroot("/tmp")
    return "changed its root"


def machine_user(uid: int) -> str:
    """Find out whether the sandbox's root is the referee's user, whose rights would count outside."""
    with open("/proc/self/uid_map", encoding="ascii") as file:
        outside = [int(line.split()[1]) for line in file]
    if uid not in outside:
        raise OSError(0, f"it is user {outside[0]}")
    return f"it is user {uid}"


def network(_: Any) -> str:
    """Find an interface besides the loopback, or a way to another machine."""
    names = [name for _, name in socket.if_nameindex() if name != "lo"]
    if names:
        return f"has {names[0]}"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.connect(("192.0.2.1", 9))  # an address for documentation (RFC 5737); nothing is sent
    return "has a route"


ATTEMPTS: "dict[str, Callable[[Any], str]]" = {
    **{
        name: probe.ATTEMPTS[name]
        for name in ("home", "benchmark", "environ", "memory", "files", "trace", "signal")
    },
    **{name: probe.ATTEMPTS[name] for name in ("limits", "scheduling", "keyring", "kernel")},
    "state": probe.read,
    "namespaces": namespaces,
    "mount": mounted,
    "new_user": new_user,
    "device": device,
    "chroot": chroot,
    "machine_user": machine_user,
    "network": network,
}
"""Each must fail."""


def arguments(state: str, home: str, uid: "int | None", *, network: bool) -> "dict[str, Any]":
    """Return the argument of each attempt, for a sandbox of this process.

    Args:
        state: The folder of the sandbox's files.
        home: The recording home.
        uid: The user of the machine whose rights the sandbox must not have; None: it has them in name only.
    """
    own = [os.getpid(), started(os.getpid())]
    shared = ("net",) if network else ()
    wanted: dict[str, Any] = dict.fromkeys(("mount", "new_user", "device", "chroot"))
    if uid is not None:
        wanted["machine_user"] = uid
    if not network:
        wanted["network"] = None
    return {
        **dict.fromkeys(("environ", "memory", "files", "trace", "signal", "limits", "scheduling"), own),
        "keyring": dict(zip(ARCHITECTURES, REFUSED["keyctl"], strict=True)),
        "kernel": "/proc/sys/kernel/core_pattern",
        "home": home,
        "benchmark": __file__,
        "state": state,
        "namespaces": {
            name: os.readlink(f"/proc/self/ns/{name}") for name in NAMESPACES if name not in shared
        },
        **wanted,
    }


def started(pid: int) -> int:
    """Return when a process started, in clock ticks since boot (proc(5))."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[19])


def outcomes(wanted: "dict[str, Any]", give_up: "Callable[[], None]") -> "dict[str, list[Any]]":
    """Run the attempts in a fork of this process that calls `give_up` first.

    Returns:
        `[passed, detail]` by name. An attempt that ends the fork, or hangs, has not passed.
    """
    results, end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            give_up()
            for name, needs in wanted.items():
                os.write(end, json.dumps([name, *tried(name, needs)]).encode() + b"\n")
        finally:
            os._exit(0)
    os.close(end)
    text = b""
    while select.select([results], [], [], SECONDS)[0] and (chunk := os.read(results, 1 << 16)):
        text += chunk
    os.close(results)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    found: dict[str, list[Any]] = {name: [False, "it gave no answer"] for name in wanted}
    for line in text.splitlines():
        name, succeeded, detail = json.loads(line)
        found[name] = [not succeeded, detail]
    return found


def tried(name: str, needs: Any) -> "tuple[bool, str]":
    try:
        return True, ATTEMPTS[name](needs)
    except OSError as error:
        return False, error.strerror or str(error)
    finally:
        ctypes.set_errno(0)
