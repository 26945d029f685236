"""Errors of the store and of exports. Each message names the path and what to do."""

from __future__ import annotations

import contextlib
import errno
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from mcp_bench.servers.errors import BenchError, FruitlessError


class StorageError(BenchError):
    """A file or folder of the store cannot be used; the message names it."""


class DiskFullError(StorageError):
    """There is no room for the next row. All earlier rows are intact."""


class CorruptDatabaseError(StorageError):
    """A file is not the SQLite database it should be."""


class NewerDatabaseError(StorageError):
    """A database was written by a later version of mcp-bench."""


class ChangedSchemaError(StorageError):
    """The tables, columns, views, indexes or triggers of a database are not those that mcp-bench makes."""


class RunLockedError(StorageError):
    """Another process is writing this run."""


class NothingToExportError(FruitlessError):
    """No recording passed the rules. The text has the number that each rule dropped."""


class LeakError(BenchError):
    """Rows of an export are, or resemble, held-out tasks. The text lists them."""


@contextlib.contextmanager
def database_errors(path: Path) -> Iterator[None]:
    """Raise StorageError instead of SQLite's errors about the database at `path`."""
    try:
        yield
    except sqlite3.Error as error:
        raise database_error(path, error) from error


def database_error(path: Path, error: sqlite3.Error) -> StorageError:
    """Return the StorageError for an SQLite error about the database at `path`."""
    text = str(error)
    if "is full" in text:
        return _disk_full(path)
    if "not a database" in text or "malformed" in text:
        return CorruptDatabaseError(
            f"{path} is damaged or not an SQLite database ({text}). It was left as it is: restore it from "
            "a copy, try `sqlite3 FILE .recover`, or delete the run with `mcp-bench delete`"
        )
    if "unable to open" in text or "readonly" in text or "disk I/O" in text:
        return StorageError(f"cannot use {path} ({text}): check that it exists, its permissions and its disk")
    if "locked" in text or "busy" in text:
        return StorageError(f"{path} is in use by another program ({text}): close it and try again")
    return StorageError(f"cannot use {path}: {text}")


def is_disk_full(error: OSError) -> bool:
    """Return whether a file could not be written for lack of room, or because of a quota."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def write_error(path: Path, error: OSError) -> StorageError:
    """Return the StorageError for a file of a run that cannot be written."""
    return _disk_full(path) if is_disk_full(error) else StorageError(f"cannot write {path}: {error.strerror}")


def home_error(what: object, error: OSError) -> StorageError:
    """Return the StorageError for `what` in the home, a file or a folder, that cannot be written."""
    return StorageError(
        f"cannot write {what}: {error.strerror}. Recordings are stored in $MCP_BENCH_HOME; set it to a "
        "folder that you can write to"
    )


def _disk_full(path: Path) -> DiskFullError:
    return DiskFullError(
        f"the disk is full: nothing more fits into {path}. What was stored before is intact; free some "
        "space, then try again or resume the run"
    )
