"""The key of this home. Only the referee has it; without it, nobody can write a row that verifies."""

from __future__ import annotations

import os
import secrets
import sqlite3
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

from mcp_bench.recorder.errors import StorageError, home_error
from mcp_bench.servers.home import home

NAME = "key"
SECRET_BYTES = 32


class OtherKeyError(StorageError):
    """A run was recorded with a key that this home does not have."""


@dataclass(frozen=True, slots=True)
class Key:
    """`id` can be shown and stored; `secret` stays in its file."""

    id: str
    secret: bytes = field(repr=False)


def key_path() -> Path:
    return home() / NAME


def own_key() -> Key:
    """Return the key of this home; create it (mode 0600) when the first run needs it.

    Raises:
        StorageError: it cannot be read or written, or is not a key.
    """
    path = key_path()
    if not path.exists():
        _make(path)
    return read_key(path)


def key_for(run: Path) -> Key:
    """Return the key for the run in the folder `run`, or for a part: that of its home, else our own.

    Raises:
        StorageError: as for `own_key`.
    """
    above = run.absolute().parents
    # a part is in runs/ID/parts of a home, or was moved here with the key of the machine that recorded it
    places = (above[1], above[3]) if above[0].name == "parts" else (above[1],)
    theirs = next((place / NAME for place in places if (place / NAME).is_file()), None)
    return read_key(theirs) if theirs else own_key()


def read_key(path: Path) -> Key:
    """Return the key in a file.

    Raises:
        StorageError: it cannot be read, or is not a key.
    """
    try:
        secret = bytes.fromhex(path.read_text("ascii").strip())
    except OSError as error:
        raise StorageError(f"cannot read the key {path}: {error.strerror}") from error
    except ValueError:
        secret = b""
    if len(secret) != SECRET_BYTES:
        raise StorageError(
            f"{path} is not a key of mcp-bench. Restore the right file: without it no run of this home can "
            "be verified. If it is lost, remove the file; the next run creates a new key"
        )
    return Key(blake2b(b"id", key=secret, digest_size=8).hexdigest(), secret)


def write_key(path: Path, secret: str) -> None:
    """Write a key, as hexadecimal digits, into a new file that only this user can read.

    Raises:
        OSError: the file exists, or cannot be written.
    """
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(file, "w") as out:  # noqa: PTH123 - it is open already
        out.write(secret + "\n")
        out.flush()
        os.fsync(out.fileno())


def refuse_other_key(db: sqlite3.Connection, path: Path, key: Key) -> None:
    """Raise OtherKeyError if the database at `path` was recorded with another key than `key`."""
    row = db.execute("SELECT key FROM runs LIMIT 1").fetchone()
    if row is not None and row[0] != key.id:
        raise OtherKeyError(
            f"{path} was recorded with the key {row[0]}, and this home has {key.id}: new rows could not be "
            "verified. Continue the run where it was recorded"
        )


def _make(path: Path) -> None:
    """Write a new key atomically. Of several processes that do so at once, one wins."""
    fresh = path.with_name(f"{NAME}.{secrets.token_hex(8)}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            write_key(fresh, secrets.token_hex(SECRET_BYTES))
            os.link(fresh, path)
        except FileExistsError:
            pass  # another process was faster
        finally:
            fresh.unlink(missing_ok=True)
    except OSError as error:
        raise home_error(f"the key {path}", error) from error
