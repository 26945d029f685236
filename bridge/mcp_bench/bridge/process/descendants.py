"""The processes below this one: find them, inherit their orphans, and end them within a stated time.

Ending needs no list of everything: this process is a child subreaper (prctl(2)), so whatever a killed process
leaves becomes its child, and its children are cheap to list (`/proc/PID/task/TID/children`, proc(5)). That is
quick enough to catch processes that fork faster than all of /proc can be read.
"""

import ctypes
import os
import signal
import time
from collections.abc import Callable, Collection, Iterable

PR_SET_CHILD_SUBREAPER = 36

END_SECONDS = 10.0
"""Ending processes returns within this time, even if some are left: a process in an uninterruptible wait
(state D, proc(5)) cannot be killed."""
AGAIN_SECONDS = 0.05
"""Between two freezes; between them, only children are killed."""
FREEZE_SECONDS = 0.5
"""For stopping all of them before they are killed."""
PAUSES = (0.0005, 0.02)
"""The first and the longest wait for killed processes to die."""


def become_subreaper() -> None:
    """Make this process the parent of every orphan below it.

    Raises:
        OSError: the kernel refused.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def parents() -> dict[int, int]:
    """Return the parent of every visible process, by process id."""
    table = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    # the command name can contain spaces and brackets: count from its end
                    table[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
            except OSError:
                continue  # it has ended
    return table


def below(roots: Iterable[int]) -> list[int]:
    """Return the ids of all processes below `roots`, zombies included, the nearest first."""
    children: dict[int, list[int]] = {}
    for pid, parent in parents().items():
        children.setdefault(parent, []).append(pid)
    met, found = set(roots), list[int]()
    frontier = list(met)
    while frontier:
        frontier = [pid for parent in frontier for pid in children.get(parent, ()) if pid not in met]
        met.update(frontier)
        found += frontier
    return found


def descendants(root: int) -> set[int]:
    """Return the ids of all processes below `root`, zombies included."""
    return set(below([root]))


def children(pid: int | str = "self") -> list[int]:
    """Return the children of a process, zombies included; some may be missing while they come and go.

    Raises:
        FileNotFoundError: the process is gone, or the kernel was built without CONFIG_PROC_CHILDREN.
    """
    found = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):  # a child belongs to the thread that forked it
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found += file.read().split()
    except ProcessLookupError:
        pass  # it ended in between
    return [int(child) for child in found]


def own_children() -> list[int]:
    """Return the children of this process, zombies included."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return []
    try:
        found = children()
    except FileNotFoundError:
        found = []
    return found or [pid for pid, parent in parents().items() if parent == os.getpid()]


def end_descendants(uid: int | None = None) -> int:
    """End everything below this process, which must be a subreaper. See `end_children`."""
    return end_children(own_children, uid)


def end_children(
    find: Callable[[], Collection[int]], uid: int | None = None, seconds: float = END_SECONDS
) -> int:
    """Kill and reap children of this process and everything below them.

    Args:
        find: Returns those children, also the ones that this process has just inherited.
        uid: A user that nothing else runs as. The kernel kills all of its processes in one step.

    Returns:
        The number of processes that are left after `seconds`.
    """
    deadline = time.monotonic() + seconds
    pause, freeze_at = PAUSES[0], 0.0
    while found := find():
        left = [pid for pid in found if not reaped(pid)]
        now = time.monotonic()
        if now >= deadline:
            return len({*left, *below(left)})
        if now < freeze_at:
            send(signal.SIGKILL, left)
        else:
            if uid is not None:
                kill_user(uid)
            send(signal.SIGKILL, *frozen(find))
            done = time.monotonic()
            freeze_at = done + max(AGAIN_SECONDS, 2 * (done - now))
        pause = PAUSES[0] if len(left) < len(found) else min(2 * pause, PAUSES[1])
        if len(left) == len(found):
            time.sleep(pause)
    return 0


def reaped(pid: int) -> bool:
    """Reap a child if it is dead; return whether it is gone."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True


def frozen(find: Callable[[], Collection[int]]) -> tuple[set[int], set[int]]:
    """Stop everything below this process until nothing is new, so that no process can replace another.

    It takes `FREEZE_SECONDS` at most: there may always be new ones. Each is stopped as soon as it is found,
    parents first, together with its process group, which the kernel stops in one step.

    Returns:
        The processes, and the process groups that contain nothing else.
    """
    deadline = time.monotonic() + FREEZE_SECONDS
    stopped, groups = set[int](), set[int]()
    session, known = os.getsid(0), -1
    while known < len(stopped) and time.monotonic() < deadline:
        known = len(stopped)
        waiting = list(find())
        for pid in waiting:  # it grows
            if time.monotonic() >= deadline:
                break
            if pid not in stopped:
                stopped.add(pid)
                group = own_group(pid, session)
                send(signal.SIGSTOP, [pid], group - groups)
                groups |= group
            try:
                waiting += children(pid)
            except FileNotFoundError:
                continue
    return stopped, groups


def own_group(pid: int, session: int) -> set[int]:
    """Return a process's group if its session is another one than `session`, this process's.

    A process below this one has made that session, so everything in it is below this one, too.
    """
    try:
        group = os.getpgid(pid)
        return {group} if os.getsid(pid) != session and group > 1 else set()
    except OSError:
        return set()


def send(number: int, pids: Iterable[int], groups: Iterable[int] = ()) -> None:
    """Send a signal to processes and process groups; some may be gone."""
    for pid in (*(-group for group in groups), *pids):
        try:
            os.kill(pid, number)
        except OSError:
            pass


def kill_user(uid: int) -> None:
    """Kill every process of a user, by a process that may signal no other (kill(2) with -1)."""
    try:
        pid = os.fork()
    except OSError:
        return  # no room for it; killing them one by one makes some
    if pid == 0:
        try:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            os.kill(-1, signal.SIGKILL)
        finally:
            os._exit(0)
    try:
        os.waitpid(pid, 0)
    except ChildProcessError:
        pass
