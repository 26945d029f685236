"""Folders of runs: a fresh one by default, and one process at a time in each."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

from mcp_bench.servers.errors import BenchError
from mcp_bench.servers.home import home


def fresh(kind: str, before: str = "") -> Path:
    """Make a new folder in `$MCP_BENCH_HOME/KIND`, and return it. Its name is the time, after `before`."""
    parent, name = home() / kind, f"{before}{datetime.now(UTC):%Y%m%d-%H%M%S}"
    parent.mkdir(parents=True, exist_ok=True)
    for number in count(1):
        path = parent / (name if number == 1 else f"{name}-{number}")
        try:
            path.mkdir()
        except FileExistsError:  # another command began in the same second
            continue
        return path
    raise AssertionError


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep other processes from working in a folder.

    Raises:
        BenchError: one does.
    """
    lock = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise BenchError(f"another process works in {path}: wait until it ends") from error
    try:
        yield
    finally:
        os.close(lock)
