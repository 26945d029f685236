"""Limits on what one agent uses of the machine: processes, memory, open files, and what it stores.

The kernel's own limits (setrlimit(2)) count per process or per user, do not bind root, and a limit on address
space or data breaks JavaScript engines, which reserve far more than they use. So the supervisor measures, and
the kernel's limits only bound what can happen between two measurements. A memory cgroup would be exact, but
few users may make one.

The quick signs, which cost a few microseconds, are the machine's number of tasks (`/proc/loadavg`) and the
free space of the folder's file system. When there are many more tasks, or else once a second, the processes
are measured; the folder is walked only when its file system has less space than before, or once a minute.
"""

import errno
import os
import resource
import time
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

from mcp_bench.bridge.process.descendants import below, children

TICK_SECONDS = 0.1
"""Between two looks at the quick signs."""
MEASURE_SECONDS = 1.0
"""Between two measurements of the processes."""
SHARE = 0.02
"""Of the time, at most this much goes into measurements of each kind."""
SLICE_SECONDS = 0.01
"""Time for walking the folder in one tick."""
TASKS_MOVED = 200
SPACE_MOVED = 64 << 20
FILES_MOVED = 10_000
OPEN_FILES = 8192
"""Of one process: the kernel refuses to open more."""
OOM_SCORE = 300
"""Added to the agent's score (0 to 1000) when the kernel runs out of memory and chooses what to kill: before
the referee, but after a process that holds a third of the memory."""
TOO_DEEP = "storage: folders are nested more deeply than a path can name"
WALK_SECONDS = 60.0
"""Between two walks at the latest, for file systems that do not count their space."""
MOST_MAPS = 256 << 20
"""Bytes of what /proc says of all mappings. Thousands of processes with ordinary programs have less."""
PAGE = os.sysconf("SC_PAGE_SIZE")


class AgentLimits(NamedTuple):
    """What one agent may use. An agent that uses more is ended, and graded."""

    processes: int = 2048
    """Threads included."""
    memory: int = 8 << 30
    """Bytes, all processes together."""
    storage: int = 8 << 30
    """Bytes in the episode's folder, and in open or mapped files without a name (deleted, or
    memfd_create(2))."""
    files: int = 1_000_000
    """In the episode's folder."""


def lower_own(limits: dict[str, Any]) -> None:
    """Set the kernel's limits for this process and the ones that it starts."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    lower(resource.RLIMIT_NOFILE, OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES))
    if limits.get("own_user"):  # a user's count includes everything else that it runs
        lower(resource.RLIMIT_NPROC, 2 * limits["processes"])  # so that it is ended, not only refused
    try:
        with open("/proc/self/oom_score_adj", "r+", encoding="ascii") as file:
            score = int(file.read())
            file.seek(0)
            file.write(str(max(score, OOM_SCORE)))
    except OSError:
        pass  # an older score stays


def lower(kind: int, most: int) -> None:
    soft, hard = resource.getrlimit(kind)
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    resource.setrlimit(kind, (most if soft == resource.RLIM_INFINITY else min(soft, most), most))


class Watch:
    """Measures the processes below this one, and the agent's folder."""

    def __init__(self, limits: dict[str, Any]) -> None:
        """Set up the watch.

        Args:
            limits: The names of `AgentLimits`, and the episode's `folder`.
        """
        self.limits = limits
        self._tasks = machine_tasks()
        self._measure_at = self._walk_at = 0.0
        self._walk: Iterator[str] | None = None
        self._walked = 0.0
        self._space = free(limits["folder"])
        self._changed = True

    def over(self) -> str:
        """Return which limit is exceeded, in words, or an empty string. Call it every `TICK_SECONDS`."""
        now, tasks = time.monotonic(), machine_tasks()
        if tasks - self._tasks > TASKS_MOVED or now >= self._measure_at:
            if found := over_by_processes(self.limits):
                return found
            spent = time.monotonic() - now
            self._tasks, self._measure_at = tasks, now + max(MEASURE_SECONDS, spent / SHARE)
        self._tasks = min(self._tasks, tasks)
        return self._over_by_folder()

    def _over_by_folder(self) -> str:
        now = time.monotonic()
        if self._walk is None:
            space = free(self.limits["folder"])
            moved = self._space[0] - space[0] > SPACE_MOVED or self._space[1] - space[1] > FILES_MOVED
            self._space = (max(space[0], self._space[0]), max(space[1], self._space[1]))
            self._changed |= moved or now > self._walk_at + WALK_SECONDS
            if not self._changed or now < self._walk_at:
                return ""
            self._changed, self._space, self._walked = False, space, 0.0
            self._walk = walk(self.limits)
        for found in self._walk:
            if found or time.monotonic() - now > SLICE_SECONDS:
                self._walked += time.monotonic() - now
                return found
        self._walk = None
        self._walk_at = time.monotonic() + (self._walked + time.monotonic() - now) / SHARE
        return ""


def machine_tasks() -> int:
    """Return the number of processes and threads of the machine (proc(5), loadavg)."""
    try:
        with open("/proc/loadavg", "rb") as file:
            return int(file.read().split()[3].partition(b"/")[2])
    except (OSError, ValueError, IndexError):
        return 0


def free(folder: str) -> tuple[int, int]:
    """Return the free bytes and the free inodes of a file system."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return 0, 0
    return found.f_bfree * found.f_frsize, found.f_ffree


def family(most: int) -> list[int]:
    """Return the processes below this one; a few more than `most` suffice."""
    found: list[int] = []
    waiting: list[int | str] = ["self"]
    try:
        while waiting and len(found) <= most:
            try:
                more = children(waiting.pop())
            except FileNotFoundError:
                if not found:
                    raise
                continue  # it has ended
            found += more
            waiting += more
    except FileNotFoundError:  # a kernel without these lists
        found = below([os.getpid()])
    return found


def over_by_processes(limits: dict[str, Any]) -> str:
    tasks = resident = 0
    nameless = Nameless()
    pids = family(limits["processes"])
    for pid in pids:
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue
        tasks += max(1, int(fields[17]))
        resident += int(fields[21]) * PAGE
        if tasks > limits["processes"]:
            return f"processes: more than {limits['processes']}, threads included"
        nameless.add(pid)
    if resident > limits["memory"]:  # this counts shared pages several times, and what follows does not
        resident = sum(proportional(pid) for pid in pids)
        if resident > limits["memory"]:
            return f"memory: {resident >> 20} MiB of at most {limits['memory'] >> 20} MiB"
    if nameless.maps > MOST_MAPS:
        return "memory: more mappings than can be looked at"
    if (size := nameless.total()) > limits["storage"]:
        return f"storage: {size >> 20} MiB in files without a name, of at most {limits['storage'] >> 20} MiB"
    return ""


def proportional(pid: int) -> int:
    """Return a process's memory, with its share of shared pages (proc(5), smaps_rollup)."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            return next((int(line.split()[1]) << 10 for line in file if line.startswith(b"Pss:")), 0)
    except PermissionError:  # it has made itself unreadable
        return rough(pid)
    except OSError:
        return 0


def rough(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            return int(file.read().split()[1]) * PAGE
    except (OSError, IndexError):
        return 0


class Nameless:
    """Files that have no name: deleted ones, and memfd_create(2). They are open, or only mapped (mmap(2))."""

    def __init__(self) -> None:
        self.opened: dict[tuple[int, int], int] = {}
        """Stored bytes, by device and inode."""
        self.mapped: dict[int, int] = {}
        """Bytes of those that are mapped, by inode: /proc can name another device than stat(2)."""
        self.maps = 0
        """Bytes of the lists of mappings."""

    def add(self, pid: int) -> None:
        """Count those of a process, if they can be seen."""
        try:
            for number in os.listdir(f"/proc/{pid}/fd"):
                try:
                    found = os.stat(f"/proc/{pid}/fd/{number}")
                except OSError:
                    continue
                if not found.st_nlink:
                    self.opened[found.st_dev, found.st_ino] = found.st_blocks * 512
            with open(f"/proc/{pid}/maps", "rb") as file:
                for line in file:
                    self.maps += len(line)
                    if self.maps > MOST_MAPS:
                        return
                    if line.endswith(b" (deleted)\n"):
                        self.add_mapping(pid, line)
        except OSError:
            pass  # it has ended, or made itself unreadable

    def add_mapping(self, pid: int, line: bytes) -> None:
        """Count a mapped file (proc(5), maps), at least as far as it is mapped."""
        place, _, offset, device, inode = line.split(maxsplit=5)[:5]
        major, minor = (int(part, 16) for part in device.split(b":"))
        if os.makedev(major, minor) == memory_device():
            return  # it is memory, and mostly reserved without being used
        start, end = (int(part, 16) for part in place.split(b"-"))
        try:  # only root can
            size = os.stat(f"/proc/{pid}/map_files/{start:x}-{end:x}").st_blocks * 512
        except OSError:
            size = int(offset, 16) + end - start
        self.mapped[int(inode)] = max(size, self.mapped.get(int(inode), 0))

    def total(self) -> int:
        counted = dict(self.mapped)
        for (_, inode), size in self.opened.items():
            counted[inode] = max(0, counted.get(inode, 0) - size)
        return sum(counted.values()) + sum(self.opened.values())


@cache
def memory_device() -> int:
    """Return the device of files in memory that never had a name (memfd_create(2), shared memory)."""
    made = os.memfd_create("device")
    try:
        return os.fstat(made).st_dev
    finally:
        os.close(made)


def walk(limits: dict[str, Any]) -> Iterator[str]:
    """Measure the folder; yield why it is over a limit, or an empty string after each part of it."""
    size = count = 0
    met: set[tuple[int, int]] = set()
    waiting = [limits["folder"]]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    count += 1
                    if not count % 64:
                        yield ""
                    try:
                        found = entry.stat(follow_symlinks=False)
                    except OSError as error:
                        if error.errno == errno.ENAMETOOLONG:
                            yield TOO_DEEP
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    elif found.st_nlink > 1:
                        if (found.st_dev, found.st_ino) in met:
                            continue
                        met.add((found.st_dev, found.st_ino))
                    size += found.st_blocks * 512
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                yield TOO_DEEP
        if size > limits["storage"]:
            yield f"storage: {size >> 20} MiB of at most {limits['storage'] >> 20} MiB"
        if count > limits["files"]:
            yield f"storage: {count} files of at most {limits['files']}"
        yield ""
