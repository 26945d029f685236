"""Namespaces, mounts and capabilities of the kernel, for `keeper.py`. Standard library only.

User namespaces: user_namespaces(7). Overlay without privilege: mount option `userxattr`, Linux 5.11
(https://docs.kernel.org/filesystems/overlayfs.html). Mounts with mapped owners: mount_setattr(2), Linux 5.19
for the layers of an overlay.
"""

import ctypes
import os
import resource
import signal
import struct
import time

# confine.py stands alone, so what both need is there
from mcp_bench.bridge.isolation.confine import (
    ARCHITECTURES,
    CAPABILITY_VERSION_3,
    CLONE_NEWNS,
    CLONE_NEWUSER,
    MS_NODEV,
    MS_NOSUID,
    MS_PRIVATE,
    MS_REC,
    PR_CAPBSET_DROP,
    PR_SET_NO_NEW_PRIVS,
    REFUSED,
    become,
    checked,
    libc,
    mount,
)

MS_REMOUNT = 0x20
MNT_DETACH = 2
OPEN_TREE, MOVE_MOUNT, MOUNT_SETATTR = 428, 429, 442
"""System call numbers; the same on every architecture except Alpha."""
OPEN_TREE_CLONE, MOVE_MOUNT_F_EMPTY_PATH, AT_EMPTY_PATH, AT_RECURSIVE, AT_FDCWD = 1, 4, 0x1000, 0x8000, -100
MOUNT_ATTR_IDMAP = 0x00100000

PR_SET_DUMPABLE, PR_SET_PDEATHSIG = 4, 1
KEPT = {
    "chown": 0,
    "dac_override": 1,
    "fowner": 3,
    "fsetid": 4,
    "kill": 5,
    "setgid": 6,
    "setuid": 7,
    "net_bind_service": 10,
}
"""Capabilities of the sandbox's root, over its own namespace only: what package managers and servers need.
Never `sys_admin`: with it, the read-only mounts can be undone."""
PERF_SOFTWARE, PERF_TASK_CLOCK, PERF_INHERIT_USER_ONLY, PERF_CLOEXEC = 1, 1, 0b100010, 8
"""Of perf_event_open(2). A user may count without what the kernel does; this clock counts it all the same."""
MOST_USER_NAMESPACES = "/proc/sys/user/max_user_namespaces"


def unshare(flags: int) -> None:
    checked(libc.unshare(flags), "unshare")


def enter(namespace: int) -> None:
    """Join the namespace of an open `/proc/PID/ns/...`."""
    checked(libc.setns(namespace, 0), "setns")


def unmount(target: str) -> None:
    checked(libc.umount2(os.fsencode(target), MNT_DETACH), f"umount of {target}")


def private_mounts() -> None:
    """Enter a mount namespace of this process's own. Changes in it stay there."""
    unshare(CLONE_NEWNS)
    mount("none", "/", "", MS_REC | MS_PRIVATE)


def user_namespace(uid: "int | None", block: "int | None", processes: int) -> "tuple[int, bool]":
    """Make a user namespace, in which this process's user, or `uid`, is root.

    Args:
        uid: The user to become first. Needs root.
        block: First of 65536 ids of which the namespace maps all but the first. Needs root. Without it, the
            user's subordinate ids (subuid(5)) are used, if there are any.
        processes: How many processes the user can have in the namespace, including this one's children.

    Returns:
        A descriptor of the namespace, and whether it has more users than one.

    Raises:
        OSError: the kernel refused.
    """
    ready, go = os.pipe(), os.pipe()
    own = (os.geteuid(), os.getegid()) if uid is None else (uid, uid)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            checked(libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")
            if uid is not None:
                become(uid)
                # the kernel remembers it as the limit of the whole namespace
                resource.setrlimit(resource.RLIMIT_NPROC, (processes, processes))
                libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
            code = 0 if libc.unshare(CLONE_NEWUSER) == 0 else ctypes.get_errno()
            os.write(ready[1], bytes([code]))
            os.read(go[0], 1)
        finally:
            os._exit(code)
    try:
        os.close(ready[1])
        if code := (os.read(ready[0], 1) or b"\x01")[0]:
            raise OSError(code, f"unshare of a user namespace: {os.strerror(code)}")
        many = _map(child, own, block)
        return os.open(f"/proc/{child}/ns/user", os.O_RDONLY | os.O_CLOEXEC), many
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        for end in (ready[0], *go):
            os.close(end)


def _map(child: int, own: "tuple[int, int]", block: "int | None") -> bool:
    """Map the root of a new namespace, and more users where that is possible; return whether it was."""
    if block is not None:
        for kind, one in zip(("uid", "gid"), own, strict=True):
            _write(f"/proc/{child}/{kind}_map", f"0 {one} 1\n1 {block + 1} 65535")
        return True
    if not all(_map_subordinate(kind, child, one) for kind, one in zip(("uid", "gid"), own, strict=True)):
        _write(f"/proc/{child}/setgroups", "deny")
        for kind, one in zip(("uid", "gid"), own, strict=True):
            _write(f"/proc/{child}/{kind}_map", f"0 {one} 1")
        return False
    return True


def _map_subordinate(kind: str, child: int, own: int) -> bool:
    """Map this user and its subordinate ids by the system's program for that; return whether it worked."""
    try:
        with open(f"/etc/sub{kind}", encoding="utf-8") as file:
            lines = [line.strip().split(":") for line in file]
    except OSError:
        return False
    if not lines:
        return False
    import pwd
    import subprocess

    try:
        names = {str(os.getuid()), pwd.getpwuid(os.getuid()).pw_name}
        first, count = next((line[1], min(int(line[2]), 65535)) for line in lines if line[0] in names)
        argv = [f"new{kind}map", str(child), "0", str(own), "1", "1", first, str(count)]
        return subprocess.run(argv, stderr=subprocess.DEVNULL).returncode == 0
    except (OSError, KeyError, IndexError, ValueError, StopIteration):
        return False


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def become_root_of(namespace: int) -> None:
    """Enter a user namespace as its root: every right over anything outside is gone."""
    enter(namespace)
    try:
        os.setgroups([])
    except PermissionError:
        pass  # a namespace of one user has no right to set them
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)
    _write(MOST_USER_NAMESPACES, "0")  # no process below can make one, and with it new rights


def attach(layer: int, target: str, mapping: "int | None" = None, *, below: bool = False) -> None:
    """Mount a folder, held by a descriptor, elsewhere; with `mapping`, its files belong to that namespace.

    With `below`, what is mounted in it is mounted there, too.

    Raises:
        OSError: the kernel or the file system does not support it.
    """
    tree = copied(layer, below=below)
    try:
        if mapping is not None:
            attributes = struct.pack("QQQQ", MOUNT_ATTR_IDMAP, 0, 0, mapping)
            size = ctypes.c_size_t(len(attributes))
            checked(libc.syscall(MOUNT_SETATTR, tree, b"", AT_EMPTY_PATH, attributes, size), "mount_setattr")
        place(tree, target)
    finally:
        os.close(tree)


def copied(held: int, *, below: bool = False) -> int:
    """Return a mount of a file or folder, held by a descriptor, that has no place yet."""
    flags = OPEN_TREE_CLONE | AT_EMPTY_PATH | os.O_CLOEXEC | (AT_RECURSIVE if below else 0)
    return checked(libc.syscall(OPEN_TREE, held, b"", ctypes.c_uint(flags)), "open_tree")


def place(tree: int, target: str) -> None:
    """Give a copied mount its place, perhaps in another mount namespace than where it was copied."""
    path = os.fsencode(target)
    checked(
        libc.syscall(MOVE_MOUNT, tree, b"", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH), f"mount on {target}"
    )


def overlay(lower: "list[str]", upper: str, work: str, target: str) -> None:
    """Mount an overlay: `lower`, the topmost first, below `upper`. Paths must be short and plain."""
    data = f"userxattr,lowerdir={':'.join(lower)},upperdir={upper},workdir={work}"
    mount("overlay", target, "overlay", MS_NOSUID | MS_NODEV, data)


def overlay_of(lower: "list[str]", target: str) -> None:
    """Mount an overlay of some layers, the topmost first, which nobody can write to."""
    if len(lower) == 1:  # an overlay has two layers at least
        layer = os.open(lower[0], os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        attach(layer, target)
        os.close(layer)
        return
    mount("overlay", target, "overlay", MS_NOSUID | MS_NODEV, f"userxattr,lowerdir={':'.join(lower)}")


def keep_only(capabilities: "dict[str, int]") -> None:
    """Give up all other capabilities, also for the programs that this process starts."""
    wanted = set(capabilities.values())
    for number in range(64):
        if number not in wanted and libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0) < 0:
            break  # there are no more
    mask = sum(1 << number for number in wanted)
    header = struct.pack("Ii", CAPABILITY_VERSION_3, 0)
    low, high = mask & 0xFFFFFFFF, mask >> 32
    checked(libc.capset(header, struct.pack("6I", low, low, 0, high, high, 0)), "capset")
    checked(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl(PR_SET_NO_NEW_PRIVS)")


def hide_memory() -> None:
    """Forbid tracing of this process (prctl(2), PR_SET_DUMPABLE)."""
    checked(libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0), "prctl(PR_SET_DUMPABLE)")


class TreeClock:
    """Counts the processor time of all processes that this one starts from now on.

    Unlike /proc, it also counts children that ended and that nobody waited for. They cannot switch it off,
    since only who opened it may (prctl(2), PR_TASK_PERF_EVENTS_DISABLE).

    Raises:
        OSError: the kernel refused.
    """

    def __init__(self) -> None:
        machine = os.uname().machine
        if machine not in ARCHITECTURES:
            raise OSError(0, f"no number of perf_event_open is known for {machine}")
        number = REFUSED["perf_event_open"][list(ARCHITECTURES).index(machine)]
        size = 128
        event = struct.pack("IIQ24xQ", PERF_SOFTWARE, size, PERF_TASK_CLOCK, PERF_INHERIT_USER_ONLY)
        own, every = 0, -1
        self.event = checked(
            libc.syscall(number, event.ljust(size, b"\0"), own, every, -1, PERF_CLOEXEC), "perf_event_open"
        )
        self.own = time.process_time()

    def seconds(self) -> float:
        """Return the processor seconds so far, without those of this process."""
        (counted,) = struct.unpack("Q", os.read(self.event, 8))
        return float(counted) / 1e9 - (time.process_time() - self.own)

    def close(self) -> None:
        os.close(self.event)
