"""Drop all access that an agent must not have, then become the agent.

The supervisor runs `python -I -S confine.py FD`, inside a bwrap sandbox or not. The socket FD delivers a JSON
document with the agent's `argv` and `cwd`, and what it keeps:
- `read`, `write`: paths and everything below them (links resolved), for Landlock; null: no rules for files,
- `list`: folders whose names can be listed, recursively,
- `uid`: the user and group to become, or null,
- `hidden`: folders to cover if this is root, which then also hides other processes; null: neither,
- `ways`, `links`: the paths that this user must reach, and `[path, target]` of the symbolic links to them.
The reply is `ready`, followed by an error text if the program does not start. An agent that is forked from
fork_server.py calls `confine` instead, and starts no program.

Sources: https://docs.kernel.org/userspace-api/landlock.html, capabilities(7), seccomp(2).
"""

import ctypes
import json
import os
import signal
import socket
import stat
import struct
import sys
import warnings  # noqa: F401 - os.execvp needs it, and Python's own files may be out of reach by then
from typing import Any

LANDLOCK_CREATE_RULESET, LANDLOCK_ADD_RULE, LANDLOCK_RESTRICT_SELF = 444, 445, 446
"""System call numbers; the same on every architecture except Alpha."""
RULESET_VERSION = 1
RULE_PATH_BENEATH = 1
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, TRUNCATE, IOCTL_DEV = (1 << bit for bit in (0, 1, 2, 3, 14, 15))
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
"""Rights that a rule for a file, not a folder, can grant."""
RIGHTS_BY_ABI = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
"""Number of file rights that each version knows (the lowest bits)."""
SCOPES = 0b11
"""Block abstract Unix sockets and signals that lead outside the sandbox (ABI 6)."""

PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
ARCHITECTURES = {
    "x86_64": 0xC000003E,
    "i386": 0x40000003,
    "aarch64": 0xC00000B7,
    "arm": 0x40000028,
    "riscv64": 0xC00000F3,
}
"""Names and numbers (linux/audit.h) of the architectures whose system calls are checked, in the order of the
tables below. A process can use those of each architecture that its kernel runs."""
REFUSED: "dict[str, tuple[int | None, ...]]" = {
    "add_key": (248, 286, 217, 309, 217),
    "request_key": (249, 287, 218, 310, 218),
    "keyctl": (250, 288, 219, 311, 219),
    "shmget": (29, 395, 194, 307, 194),
    "shmat": (30, 397, 196, 305, 196),
    "shmdt": (67, 398, 197, 306, 197),
    "shmctl": (31, 396, 195, 308, 195),
    "semget": (64, 393, 190, 299, 190),
    "semop": (65, None, 193, 298, 193),
    "semtimedop": (220, None, 192, 312, 192),
    "semtimedop_time64": (None, 420, None, 420, None),
    "semctl": (66, 394, 191, 300, 191),
    "msgget": (68, 399, 186, 303, 186),
    "msgsnd": (69, 400, 189, 301, 189),
    "msgrcv": (70, 401, 188, 302, 188),
    "msgctl": (71, 402, 187, 304, 187),
    "ipc": (None, 117, None, None, None),
    "mq_open": (240, 277, 180, 274, 180),
    "mq_unlink": (241, 278, 181, 275, 181),
    "mq_timedsend": (242, 279, 182, 276, 182),
    "mq_timedsend_time64": (None, 418, None, 418, None),
    "mq_timedreceive": (243, 280, 183, 277, 183),
    "mq_timedreceive_time64": (None, 419, None, 419, None),
    "mq_notify": (244, 281, 184, 278, 184),
    "mq_getsetattr": (245, 282, 185, 279, 185),
    "pidfd_getfd": (438, 438, 438, 438, 438),
    "process_madvise": (440, 440, 440, 440, 440),
    "kcmp": (312, 349, 272, 378, 272),
    "perf_event_open": (298, 336, 241, 364, 241),
    "userfaultfd": (323, 374, 282, 388, 282),
    "bpf": (321, 357, 280, 386, 280),
    "io_uring_setup": (425, 425, 425, 425, 425),
    "io_uring_enter": (426, 426, 426, 426, 426),
    "io_uring_register": (427, 427, 427, 427, 427),
}
"""Refused system calls. They reach memory that outlives an episode or belongs to the user (kernel keyrings,
System V IPC, POSIX message queues), other processes (pidfd_getfd, ...) or the kernel's large attack surfaces,
of which io_uring also skips this filter."""
OF_OTHERS: "dict[str, tuple[int | None, ...]]" = {
    "sched_setaffinity": (203, 241, 122, 241, 122),
    "sched_setscheduler": (144, 156, 119, 156, 119),
    "sched_setparam": (142, 154, 118, 154, 118),
    "sched_setattr": (314, 351, 274, 380, 274),
    "migrate_pages": (256, 294, 238, 400, 238),
    "move_pages": (279, 317, 239, 344, 239),
}
"""System calls whose first argument is a process; refused unless it is 0, the caller itself."""
NEW_PROCESSES: "dict[str, tuple[int | None, ...]]" = {
    "clone": (56, 120, 220, 120, 220),
    "fork": (57, 2, None, 2, None),
    "vfork": (58, 190, None, 190, None),
    "clone3": (435, 435, 435, 435, 435),
}
"""System calls that start a process or a thread."""
NEW_NAMESPACES: "dict[str, tuple[int | None, ...]]" = {
    "unshare": (272, 310, 97, 337, 97),
    "setns": (308, 346, 268, 375, 268),
}
"""System calls that change namespaces. `clone` does, too, if the flag of a user namespace is among its first
argument; those of `clone3` are in memory, where no filter sees them."""
CLONE_NEWUSER = 0x10000000
BY_KIND = {
    "setpriority": (141, 97, 140, 97, 140),
    "ioprio_set": (251, 289, 30, 314, 30),
}
"""System calls with a kind of target and its id; refused unless the id is 0, the caller's own, and the kind
is not a user, who is also the referee."""
OWN_USER = {"setpriority": 2, "ioprio_set": 3}
PRLIMIT64 = (302, 340, 261, 369, 261)
X32 = 1 << 30
"""System calls of a third set on x86-64 have this bit; nothing uses them any more."""
BPF_LOAD, BPF_IF_EQUAL, BPF_IF_AT_LEAST, BPF_IF_SET, BPF_RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
SECCOMP_ALLOW, SECCOMP_EPERM, SECCOMP_ENOSYS = 0x7FFF0000, 0x00050001, 0x00050026
KEYCTL_JOIN_SESSION_KEYRING = 1

PR_SET_NO_NEW_PRIVS, PR_CAPBSET_DROP, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 38, 24, 47, 4
CAPABILITY_VERSION_3 = 0x20080522
CLONE_NEWNS = 0x00020000
MS_BIND, MS_REC, MS_PRIVATE, MS_NOSUID, MS_NODEV = 0x1000, 0x4000, 0x40000, 0x2, 0x4
MS_RDONLY, MS_NOEXEC = 0x1, 0x8

libc = ctypes.CDLL(None, use_errno=True)


def checked(result: int, what: str) -> int:
    """Return a C library call's result.

    Raises:
        OSError: the call failed.
    """
    if result < 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")
    return result


def landlock_version() -> int:
    return int(
        libc.syscall(LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(RULESET_VERSION))
    )


def forgo_capabilities() -> None:
    """Prevent programs from gaining capabilities. Only root can, and only root needs to."""
    for number in range(64):
        if libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0) < 0:
            break  # not root, or no more capabilities


def drop_capabilities() -> None:
    libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    header = struct.pack("Ii", CAPABILITY_VERSION_3, 0)
    checked(libc.capset(header, bytes(24)), "capset")


def restrict(read: "list[str] | None", write: "list[str]", listed: "list[str]") -> None:
    """Apply Landlock in the kernel's newest version; without `read`, apply its scopes only."""
    version = landlock_version()
    if version < 1:
        if read is None:
            return
        raise OSError(0, "the kernel does not support Landlock, or it is disabled")
    known = (1 << RIGHTS_BY_ABI.get(version, 16)) - 1
    handled = 0 if read is None else known
    scopes = SCOPES if version >= 6 else 0
    if not handled and not scopes:
        return
    attributes = struct.pack("QQQ", handled, 0, scopes)[: 24 if version >= 6 else 8]
    rules = checked(
        libc.syscall(LANDLOCK_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0), "Landlock"
    )
    granted = ((read or (), EXECUTE | READ_FILE | READ_DIR), (listed, READ_DIR), (write, known))
    for paths, rights in granted:
        for path in paths if handled else ():
            allow(rules, path, rights)
    checked(libc.syscall(LANDLOCK_RESTRICT_SELF, rules, 0), "Landlock")
    os.close(rules)


def allow(rules: int, path: str, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # it is gone, so it needs no rule
    try:
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            rights &= OF_FILES
        rule = ctypes.create_string_buffer(struct.pack("=Qi", rights, place))
        checked(libc.syscall(LANDLOCK_ADD_RULE, rules, RULE_PATH_BENEATH, rule, 0), f"Landlock, {path}")
    finally:
        os.close(place)


def filter_program(
    allowed: "frozenset[str]" = frozenset(),
    refused: "frozenset[str]" = frozenset(),
    *,
    namespaces: bool = True,
) -> "list[tuple[int, int, int, int]]":
    """Return the filter of system calls, as instructions `(code, if true, if false, value)` (seccomp(2)).

    Args:
        allowed: names in `REFUSED` that are not.
        refused: names in `OF_OTHERS` that are refused even for the caller itself, and in `NEW_PROCESSES`.
        namespaces: whether a process may make a user namespace, where the kernel lets it.
    """
    never = {name: numbers for name, numbers in REFUSED.items() if name not in allowed}
    never |= {name: numbers for name, numbers in (OF_OTHERS | NEW_PROCESSES).items() if name in refused}
    never |= {} if namespaces else NEW_NAMESPACES
    others = {name: numbers for name, numbers in OF_OTHERS.items() if name not in refused}
    number, architecture = (BPF_LOAD, 0, 0, 0), (BPF_LOAD, 0, 0, 4)
    allow, refuse = (BPF_RETURN, 0, 0, SECCOMP_ALLOW), (BPF_RETURN, 0, 0, SECCOMP_EPERM)

    def argument(index: int, high: int = 0) -> "tuple[int, int, int, int]":
        return (BPF_LOAD, 0, 0, 16 + 8 * index + 4 * high)

    program = [architecture]
    for place, (name, audit) in enumerate(ARCHITECTURES.items()):
        # each check is skipped if the number is another one
        checks = [(number, [refuse]) for number in column(never, place)]
        of_others = [argument(0), (BPF_IF_EQUAL, 0, 1, 0), allow, refuse]
        checks += [(number, of_others) for number in column(others, place)]
        for call, numbers in BY_KIND.items():
            own = [argument(1), (BPF_IF_EQUAL, 0, 3, 0), argument(0), (BPF_IF_EQUAL, 1, 0, OWN_USER[call])]
            checks.append((numbers[place], [*own, allow, refuse]))
        # with nothing to set (argument 2), it only reads
        reads = [argument(2), (BPF_IF_EQUAL, 0, 3, 0), argument(2, 1), (BPF_IF_EQUAL, 0, 1, 0), allow, refuse]
        checks.append((PRLIMIT64[place], [argument(0), (BPF_IF_EQUAL, 0, 1, 0), allow, *reads]))
        if not namespaces:
            flagged = [argument(0), (BPF_IF_SET, 0, 1, CLONE_NEWUSER), refuse, allow]
            checks += [(wanted, flagged) for wanted in column({"": NEW_PROCESSES["clone"]}, place)]
            missing = [(BPF_RETURN, 0, 0, SECCOMP_ENOSYS)]  # libraries then use `clone`
            checks += [(wanted, missing) for wanted in column({"": NEW_PROCESSES["clone3"]}, place)]
        block = [number]
        if name == "x86_64":
            block += [(BPF_IF_AT_LEAST, 0, 1, X32), (BPF_RETURN, 0, 0, SECCOMP_ENOSYS)]
        for wanted, steps in checks:
            block += [(BPF_IF_EQUAL, 0, len(steps), wanted), *steps]
        block.append(allow)
        program += [(BPF_IF_EQUAL, 0, len(block), audit), *block]
    return [*program, allow]


def column(table: "dict[str, tuple[int | None, ...]]", place: int) -> "list[int]":
    return [number for numbers in table.values() if (number := numbers[place]) is not None]


def filter_code(program: "list[tuple[int, int, int, int]]") -> bytes:
    return b"".join(struct.pack("HBBI", *step) for step in program)


def filter_calls(program: "list[tuple[int, int, int, int]]") -> None:
    """Filter the system calls of this process from now on. The probes detect a kernel without seccomp(2)."""
    code = ctypes.create_string_buffer(filter_code(program))
    filters = struct.pack("@HP", len(program), ctypes.addressof(code))
    libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, filters, 0, 0)


def leave_keyrings() -> None:
    """Start with an empty session keyring instead of the user's (session-keyring(7)).

    This is a second line behind the filter, so a kernel without keyrings, or one that refuses, is no error.
    """
    name = {("x86_64", 4): "i386", ("aarch64", 4): "arm"}.get(
        (os.uname().machine, ctypes.sizeof(ctypes.c_void_p))
    )
    name = name or os.uname().machine
    if name in ARCHITECTURES:
        keyctl = REFUSED["keyctl"][list(ARCHITECTURES).index(name)]
        libc.syscall(keyctl, KEYCTL_JOIN_SESSION_KEYRING, None)


def become(uid: int) -> None:
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def hide(folders: "list[str] | None") -> None:
    """Cover folders, and show in /proc only what may be traced: this process and its descendants.

    Landlock closes files, but not their sizes, times and events (inotify(7)), nor command lines. This takes a
    mount namespace of its own, so it needs CAP_SYS_ADMIN, and does nothing without it.
    """
    if folders is None or os.geteuid() != 0 or libc.unshare(CLONE_NEWNS) < 0:
        return
    mount("none", "/", "", MS_REC | MS_PRIVATE)
    for folder in filter(os.path.isdir, folders):
        mount("none", folder, "tmpfs", MS_NOSUID | MS_NODEV | MS_RDONLY, "mode=0")
    flags = ctypes.c_ulong(MS_NOSUID | MS_NODEV | MS_NOEXEC)
    libc.mount(b"proc", b"/proc", b"proc", flags, b"hidepid=ptraceable")  # Linux 5.8


def open_ways(paths: "list[str]", links: "list[list[str]]") -> None:
    """Make `paths` reachable for other users, in a private mount namespace.

    A parent folder that other users cannot enter (such as /root) is covered by an empty folder that contains
    only `paths`. Nothing changes for other processes.
    """
    closed = {folder for path in paths if (folder := first_closed(path))}
    if not closed:
        return
    checked(libc.unshare(CLONE_NEWNS), "unshare")
    mount("none", "/", "", MS_REC | MS_PRIVATE)
    below = {folder: [path for path in paths if path.startswith(folder + "/")] for folder in closed}
    places = {path: os.open(path, os.O_PATH) for group in below.values() for path in group}
    os.umask(0o022)
    for folder, group in below.items():
        mount("none", folder, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755")
        for path in sorted(group):
            put_back(path, places[path])
        for path, target in links:
            if path.startswith(folder + "/") and not os.path.lexists(path):
                os.makedirs(os.path.dirname(path), exist_ok=True)
                os.symlink(target, path)
    for place in places.values():
        os.close(place)


def first_closed(path: str) -> "str | None":
    """Return the topmost parent folder of `path` that other users cannot enter."""
    parts = path.split("/")
    for count in range(2, len(parts)):
        folder = "/".join(parts[:count])
        if not os.stat(folder).st_mode & stat.S_IXOTH:
            return folder
    return None


def put_back(path: str, place: int) -> None:
    if os.path.exists(path):  # it came back with a parent folder
        return
    if stat.S_ISDIR(os.fstat(place).st_mode):
        os.makedirs(path)
    else:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))
    mount(f"/proc/self/fd/{place}", path, "", MS_BIND | MS_REC)


def mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    words = [os.fsencode(word) for word in (source, target, kind)]
    checked(libc.mount(*words, ctypes.c_ulong(flags), os.fsencode(data)), f"mount on {target}")


def confine(spec: "dict[str, Any]", control: socket.socket) -> None:
    """Drop all access that is not in `spec`, in a new process group; report `ready` when the group exists.

    Raises:
        OSError: some access could not be dropped.
    """
    if os.getpgrp() != os.getpid():
        os.setsid()  # as without bwrap: signals for the agent reach its group
    control.sendall(b"ready\n")
    forgo_capabilities()
    hide(spec["hidden"])
    if spec["uid"] is not None:
        open_ways(spec["ways"], spec["links"])
        become(spec["uid"])
    drop_capabilities()
    checked(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl(PR_SET_NO_NEW_PRIVS)")
    leave_keyrings()
    restrict(spec["read"], spec["write"], spec["list"])
    filter_calls(filter_program())
    os.chdir(spec["cwd"])


def refused(error: Exception, argv: "list[str]") -> bytes:
    """Return why the program did not start, for the supervisor."""
    words = getattr(error, "strerror", None) or str(error)
    return f"{getattr(error, 'filename', None) or argv[0]}: {words}\n".encode()


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    received = b""
    while chunk := control.recv(1 << 16):
        received += chunk
    spec = json.loads(received)
    try:
        confine(spec, control)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these
            signal.signal(number, signal.SIG_DFL)
        os.execvp(spec["argv"][0], spec["argv"])
    except (OSError, ValueError) as error:
        control.sendall(refused(error, spec["argv"]))
        sys.exit(1)


if __name__ == "__main__":
    main()
