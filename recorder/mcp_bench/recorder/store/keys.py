"""The key of this home: only the referee has it, and nobody without it can make a row that verifies."""

from __future__ import annotations

import os
import secrets
import sqlite3
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

from mcp_bench.recorder.errors import StorageError
from mcp_bench.recorder.paths import home

NAME = "key"
SECRET_BYTES = 32


class OtherKeyError(StorageError):
    """A run was recorded with a key that this home does not have."""


@dataclass(frozen=True, slots=True)
class Key:
    """`id` may be shown and stored; `secret` stays in its file."""

    id: str
    secret: bytes = field(repr=False)


def key_path() -> Path:
    return home() / NAME


def own_key() -> Key:
    """Return the key of this home, which is made (mode 0600) when the first run needs it.

    Raises:
        StorageError: it cannot be read or written, or is no key.
    """
    path = key_path()
    if not path.exists():
        _make(path)
    return read_key(path)


def key_for(run: Path) -> Key:
    """Return the key for the run in the folder `run`: of the home that it lies in, else our own.

    Raises:
        StorageError: as for `own_key`.
    """
    theirs = run.absolute().parent.parent / NAME
    return read_key(theirs) if theirs.is_file() else own_key()


def read_key(path: Path) -> Key:
    """Return the key in a file.

    Raises:
        StorageError: it cannot be read, or is no key.
    """
    try:
        secret = bytes.fromhex(path.read_text("ascii").strip())
    except OSError as error:
        raise StorageError(f"cannot read the key {path}: {error.strerror}") from error
    except ValueError:
        secret = b""
    if len(secret) != SECRET_BYTES:
        raise StorageError(
            f"{path} is not a key of mcp-bench. Put the right file back: without it no run of this home can "
            "be verified. If it is lost, remove the file, and the next run makes a new key"
        )
    return Key(blake2b(b"id", key=secret, digest_size=8).hexdigest(), secret)


def refuse_other_key(db: sqlite3.Connection, path: Path, key: Key) -> None:
    """Raise OtherKeyError where the database at `path` is of a run with another key than `key`."""
    row = db.execute("SELECT key FROM runs LIMIT 1").fetchone()
    if row is not None and row[0] != key.id:
        raise OtherKeyError(
            f"{path} was recorded with the key {row[0]}, and the one here is {key.id}: what is added to it "
            "could not be verified. Go on with it where it was recorded"
        )


def _make(path: Path) -> None:
    """Write a new key, whole or not at all; of several processes that do it at once, one wins."""
    fresh = path.with_name(f"{NAME}.{secrets.token_hex(8)}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with open(file, "w") as out:  # noqa: PTH123 - it is open already
                out.write(secrets.token_hex(SECRET_BYTES) + "\n")
                out.flush()
                os.fsync(out.fileno())
            os.link(fresh, path)
        except FileExistsError:
            pass  # somebody else was faster
        finally:
            fresh.unlink()
    except OSError as error:
        raise StorageError(
            f"cannot write the key {path}: {error.strerror}. Recordings go to $MCP_BENCH_HOME; set it to a "
            "folder that you can write"
        ) from error
