"""What `/proc` says about other processes."""

from collections.abc import Iterator
from pathlib import Path


def alive(pid: int) -> bool:
    """Return whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] != b"Z"
    except OSError:
        return False


def ancestors(pid: int) -> Iterator[int]:
    """Yield the process ids above a process, the nearest first."""
    while pid > 1:
        pid = int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])
        yield pid
