"""The lock of a run's folder: one process writes a run, and others can see that it does."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from mcp_bench.recorder.errors import RunLockedError, StorageError
from mcp_bench.recorder.records import now_us
from mcp_bench.recorder.utc import utc

LOCK = "lock"
LOOKS, LOOK_SECONDS = 10, 0.02


def take_lock(path: Path) -> int:
    """Lock a run for writing; return the descriptor, which holds the lock until it is closed.

    Raises:
        RunLockedError: another process holds it.
        StorageError: the file cannot be written.
    """
    # the kernel releases a flock when its process dies, however it dies
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}") from error
    try:
        _wait_for(lock)
        os.ftruncate(lock, 0)
        owner = {"pid": os.getpid(), "host": socket.gethostname(), "since_us": now_us()}
        os.pwrite(lock, json.dumps(owner).encode(), 0)
    except OSError as error:
        by = "copied by another process" if _is_shared(lock) else f"written by {_owner(path)}"
        os.close(lock)
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            raise StorageError(f"cannot lock {path}: {error.strerror}") from error
        raise RunLockedError(f"the run {path.parent.name} is being {by}") from error
    return lock


def is_being_written(path: Path) -> bool:
    """Return whether a process has the run open for writing."""
    try:
        lock = os.open(path / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(lock)
    return False


@contextlib.contextmanager
def held_still(path: Path) -> Iterator[None]:
    """Let nobody write to a run meanwhile.

    Raises:
        RunLockedError: a process is writing it.
    """
    try:
        lock = os.open(path / LOCK, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise StorageError(f"cannot lock {path}: {error.strerror}") from error
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError as error:
            raise RunLockedError(f"the run {path.name} is being written by {_owner(path / LOCK)}") from error
        yield
    finally:
        os.close(lock)


def _is_shared(lock: int) -> bool:
    """Return whether those who hold a lock only read (`held_still`): the file names the last writer."""
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _wait_for(lock: int) -> None:
    """Lock, although somebody may look at the lock at this moment (`is_being_written`).

    Raises:
        OSError: somebody else keeps it.
    """
    for _ in range(LOOKS):
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        time.sleep(LOOK_SECONDS)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _owner(path: Path) -> str:
    try:
        owner = json.loads(path.read_text())
        return f"process {owner['pid']} on {owner['host']} since {utc(owner['since_us'])} UTC"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
