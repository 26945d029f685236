"""The ledger of a home: which runs it has, and the last sealed state of each.

The signatures in a run show that the run is whole. They cannot show that a whole run is missing, or that its
folder is an earlier copy of itself. The ledger can: it is one file, `MCP_BENCH_HOME/ledger` (mode 0600), to
which every command appends that adds, opens, closes or removes a run.

An entry is a line, a JSON array of its number, time, kind, run, state and predecessor's hash, and last its
own hash: BLAKE2b with the home's key over the rest of the line. So nobody without the key can write an entry,
change one, or take one out of the middle. Entry 0 has the ledger's random id and the id of the key. A run's
row in `runs` has that id and the number of the entry with which it was last opened for writing.

What the ledger shows:

- a folder that is gone, that is back after it was deleted, or that holds an earlier closed state;
- a run that no entry names. Runs from before the ledger are entered when the ledger begins;
- a ledger that is gone, was begun anew or was cut off at its end, as long as one run is left that was opened
  after the cut. A run names a later entry than the ledger has, or the entry of another run.

An operator who restores a run from a backup can accept that copy (`mcp-bench verify --accept`). This is an
entry like others: it removes none of the earlier ones, so it stays visible that a later state is lost.

What it cannot show:

- a home that was put back whole, ledger and runs, to an earlier moment; the same is true of its last runs if
  they are removed together with the end of the ledger;
- an open run (its writer was killed) that was put back to an earlier open state of the same writer;
- anything that was done before the ledger began, or by somebody with the key.

Entries are appended under a lock (flock(2)) and synced. An entry that a killed process wrote in part is
dropped by the next one. Two entries enclose each change of a folder, so a process that is killed between
them leaves no false finding.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from hmac import compare_digest
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from mcp_bench.recorder.errors import StorageError, home_error, is_disk_full, write_error
from mcp_bench.recorder.records import now_us
from mcp_bench.recorder.store import keys
from mcp_bench.recorder.store.keys import Key
from mcp_bench.servers.home import home

NAME = "ledger"
HASH_BYTES = 16

Kind = Literal[
    "ledger",
    "older",
    "began",
    "opening",
    "opened",
    "closed",
    "adding",
    "added",
    "removing",
    "removed",
    "accepted",
]
"""Kinds of entries.

- `ledger`: the first one. Its run is the ledger's id, its state the key's.
- `older`: the run was there when the ledger began.
- `began`: a new run; its folder exists.
- `opening`, `opened`: an existing run is opened for writing, and its seal removed.
- `closed`: it is closed and sealed; or, if the state is empty, could not be sealed.
- `adding`, `added`: a closed run is moved into the home, as by an import.
- `removing`, `removed`: it is deleted.
- `accepted`: the operator accepts the copy that is there, which is older than the last entry, or was put
  there by hand. Its state is that of the copy; see `open_state`.
"""

Position: TypeAlias = tuple[str, int]
"""Id of a ledger, and number of an entry."""


def open_state(named: int) -> str:
    """Return the state of an accepted copy that is not sealed, by the number of the entry that it names."""
    return f"open {named}"


@dataclass(frozen=True, slots=True)
class Entry:
    number: int
    time_us: int
    kind: Kind
    run: str
    state: str
    """Tag of the seal of the run's grades, in hexadecimal digits: it covers the whole run. Empty if open, and
    `open_state` if an open run is accepted."""
    before: str
    """Hash of the entry before."""
    hash: str

    def line(self) -> bytes:
        return (json.dumps([getattr(self, name) for name in _FIELDS], separators=(",", ":")) + "\n").encode()


_FIELDS = ("number", "time_us", "kind", "run", "state", "before", "hash")


@dataclass(slots=True)
class Contents:
    """The genuine entries of a ledger, in order, and what is wrong with it."""

    entries: list[Entry] = field(default_factory=list)
    faults: list[tuple[int, str]] = field(default_factory=list)
    """Number of a line, and what is wrong there."""
    size: int = 0
    """Bytes of the file up to the end of its last whole line."""

    @property
    def id(self) -> str:
        return self.entries[0].run if self.entries else ""

    @property
    def began_us(self) -> int:
        return self.entries[0].time_us if self.entries else 0


class Ledger:
    """The ledger of one home. Any number of processes may append at the same time."""

    def __init__(self, path: Path, key: Key) -> None:
        self.path = path
        self._key = key

    def enter(self, kind: Kind, run: str, state: str = "") -> Position:
        """Append an entry, and begin the ledger if there is none. It is on the disk when this returns.

        Raises:
            StorageError: the ledger cannot be written.
        """
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = self._open()
            try:
                return self._append(file, kind, run, state)
            finally:
                os.close(file)
        except OSError as error:
            full = is_disk_full(error)
            raise (write_error if full else home_error)(self.path, error) from error

    def _open(self) -> int:
        """Open and lock the file. One that was made with another key is moved aside, to `ledger.KEY`."""
        while True:
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
            file = os.open(self.path, flags, 0o600)
            try:
                fcntl.flock(file, fcntl.LOCK_EX)
                if os.path.samestat(os.fstat(file), self.path.lstat()):
                    other = self._other_key(_read(file, 0, 512))
                    if other is None:
                        return file
                    self.path.rename(self.path.with_name(f"{NAME}.{other}"))
            except FileNotFoundError:
                pass  # another process has moved it
            except BaseException:
                os.close(file)
                raise
            os.close(file)

    def _other_key(self, data: bytes) -> str | None:
        """Return the id of the key that a ledger was made with if it is not ours."""
        try:
            number, _, kind, _, key, *_ = json.loads(data.partition(b"\n")[0])
        except (ValueError, TypeError, RecursionError):
            return None
        named = (number, kind) == (0, NAME) and isinstance(key, str) and key.isalnum() and key != self._key.id
        return key if named else None

    def _append(self, file: int, kind: Kind, run: str, state: str) -> Position:
        size = os.fstat(file).st_size
        first = self._head(file)
        last = self._last(file, size) if first else None
        if first is None or last is None:  # cut off or damaged: the chain goes on from what is genuine
            contents = self._parse(_read(file, 0, size))
            first = contents.entries[0] if contents.entries else None
            last = contents.entries[-1] if contents.entries else None
            size = contents.size
        lines: list[Entry] = []
        if first is None or last is None:
            first = last = self._entry(0, "ledger", secrets.token_hex(8), self._key.id, "")
            lines.append(last)
            for path in sorted(self.path.parent.glob("runs/*/recordings.db")):
                if path.parent.name != run:
                    last = self._entry(last.number + 1, "older", path.parent.name, "", last.hash)
                    lines.append(last)
        last = self._entry(last.number + 1, kind, run, state, last.hash)
        lines.append(last)
        os.ftruncate(file, size)  # a part of an entry, whose writer was killed
        data = b"".join(entry.line() for entry in lines)
        try:
            written = 0
            while written < len(data):
                written += os.write(file, memoryview(data)[written:])
        except OSError:
            os.ftruncate(file, size)
            raise
        os.fdatasync(file)
        return first.run, last.number

    def _head(self, file: int) -> Entry | None:
        line = _read(file, 0, 512).partition(b"\n")
        entry = self._genuine(line[0]) if line[1] else None
        return entry if entry is not None and (entry.number, entry.kind) == (0, "ledger") else None

    def _last(self, file: int, size: int) -> Entry | None:
        end = _read(file, max(size - 4096, 0), 4096)
        if not end.endswith(b"\n"):
            return None
        return self._genuine(end[:-1].rpartition(b"\n")[2])

    def _entry(self, number: int, kind: Kind, run: str, state: str, before: str) -> Entry:
        entry = Entry(number, now_us(), kind, run, state, before, "")
        return replace(entry, hash=self._hash(entry))

    def _hash(self, entry: Entry) -> str:
        covered = json.dumps([getattr(entry, name) for name in _FIELDS[:-1]]).encode()
        return blake2b(
            covered, key=self._key.secret, digest_size=HASH_BYTES, person=NAME.encode()
        ).hexdigest()

    def _genuine(self, line: bytes) -> Entry | None:
        try:
            entry = Entry(*json.loads(line))
            whole = isinstance(entry.number, int) and entry.kind in get_args(Kind)
            return entry if whole and compare_digest(self._hash(entry), entry.hash) else None
        except (ValueError, TypeError, RecursionError):
            return None

    def version(self) -> tuple[int, ...] | None:
        """Return what differs after every change of the file; None if there is none."""
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns

    def read(self) -> Contents | None:
        """Return what the ledger says; None if there is none, or it was made with another key.

        Raises:
            StorageError: it cannot be read.
        """
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(f"cannot read {self.path}: {error.strerror}") from error
        return None if self._other_key(data[:512]) else self._parse(data)

    def _parse(self, data: bytes) -> Contents:
        whole, _, _ = data.rpartition(b"\n")
        found = Contents(size=len(whole) + 1 if whole else 0)
        for number, line in enumerate(whole.split(b"\n") if whole else (), start=1):
            entry = self._genuine(line)
            last = found.entries[-1] if found.entries else None
            if entry is None:
                found.faults.append((number, "it was not written by mcp-bench"))
                continue
            if last is None and entry.kind != "ledger":
                found.faults.append((number, "the beginning of the ledger is missing"))
            elif last is not None and (entry.number != last.number + 1 or entry.before != last.hash):
                found.faults.append((number, f"entries between {last.number} and {entry.number} are missing"))
            if last is None or entry.number > last.number:
                found.entries.append(entry)
        return found


def stored_position(text: Any) -> Position | None:
    """Return the entry that the row of a run names; None if it is older than the ledger, or was changed."""
    with suppress(ValueError, TypeError):
        ledger, number = json.loads(text)
        return str(ledger), int(number)
    return None


def _read(file: int, start: int, size: int) -> bytes:
    parts = []
    while size and (part := os.pread(file, size, start)):
        parts.append(part)
        start, size = start + len(part), size - len(part)
    return b"".join(parts)


def ledger_of(run: Path, key: Key) -> Ledger | None:
    """Return the ledger for the run in the folder `run`; None if that is not among the runs of a home."""
    runs = run.absolute().parent
    if runs.name != "runs" or not (runs.parent == home() or (runs.parent / keys.NAME).is_file()):
        return None
    return Ledger(runs.parent / NAME, key)
