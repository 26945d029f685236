"""Push a run to shared storage, and pull a copy of one into the home."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

from mcp_bench.recorder.errors import RunLockedError, StorageError, database_errors
from mcp_bench.recorder.paths import runs_dir
from mcp_bench.recorder.runs.left_behind import take_in_left
from mcp_bench.recorder.runs.lock import held_still
from mcp_bench.recorder.runs.run_folder import GRADES, RECORDINGS
from mcp_bench.recorder.storage.place import NAME, PIECE_BYTES, Manifest, Piece, Place
from mcp_bench.recorder.store import schema
from mcp_bench.recorder.store.database import applied_migrations, open_reader
from mcp_bench.recorder.store.keys import key_path, read_key
from mcp_bench.recorder.store.ledger import Position, ledger_of, stored_position
from mcp_bench.recorder.store.signatures import seal_tag
from mcp_bench.servers.errors import UnknownNameError, WrongUseError
from mcp_bench.servers.home import home
from mcp_bench.servers.left_folders import HeldError, alone_in

LEFT_OUT = re.compile(r".*-shm|lock")
"""Files that say something about this machine only."""


class OtherCopyError(WrongUseError):
    """Home and place have different copies of a run."""

    exit_code = 1


Progress = Callable[[int], object]
"""Called with the number of bytes that are done, piece by piece."""


def push(run: Path, place: Place, progress: Progress, *, force: bool = False) -> tuple[Manifest, int]:
    """Copy a run to a place; return what is there now, and how many bytes were sent.

    Pieces that are there, from an interrupted push or an earlier state of the run, are not sent again.

    Args:
        run: its folder.
        place: where the copy goes.
        progress: see `Progress`.
        force: also replace a copy that is no earlier state of this run.

    Raises:
        OtherCopyError: there is such a copy, and `force` is not set.
        RunLockedError: it is being recorded.
        StorageError: it cannot be read, or the place cannot be written.
    """
    take_in_left(run)
    with held_still(run):
        ours = _ours(run)
        if not force:
            _check_follows(run, ours, place)
        there, sent = place.sizes(run.name), 0
        files: dict[str, list[Piece]] = {}
        for name in sorted(_names(run)):
            files[name] = []
            with _opened(run / name) as file:
                for data in _pieces(file):
                    piece = Piece(sha256=sha256(data).hexdigest(), size=len(data))
                    if there.get(piece.sha256) != piece.size:
                        place.put_piece(run.name, piece, data)
                        there[piece.sha256] = piece.size
                        sent += piece.size
                    files[name].append(piece)
                    progress(piece.size)
        manifest = Manifest(run=run.name, key=ours.key, state=ours.state, files=files)
        place.put_manifest(manifest)
    return manifest, sent


@dataclass(frozen=True, slots=True)
class _Ours:
    """What a run says of itself."""

    key: str
    """Id of the key that it was recorded with."""
    state: str
    """The tag of its last seal; empty if it has none."""
    named: Position | None
    """The ledger's entry with which it was last opened for writing."""


def _check_follows(run: Path, ours: _Ours, place: Place) -> None:
    """Refuse to replace a copy unless, by the ledger of this home, the run was opened after that state."""
    there = place.manifest(run.name)
    if there is None or there.state in ("", ours.state):
        return
    key = read_key(key_path()) if key_path().exists() else None
    ledger = ledger_of(run, key) if key is not None else None
    contents = ledger.read() if ledger else None
    entries = contents.entries if contents else []
    known = [one.number for one in entries if (one.run, one.state) == (run.name, there.state)]
    if contents and known and ours.named and ours.named[0] == contents.id and known[0] <= ours.named[1]:
        return
    why = (
        "a later copy, perhaps because this one was restored from a backup"
        if known
        else "a copy that this home does not know, perhaps because the run went on elsewhere"
    )
    raise OtherCopyError(
        f"{run.name} is not pushed: {place.url} has {why}. Pull it into another home to look at it, or "
        "replace it with --force"
    )


def pull(run: str, place: Place, progress: Progress) -> tuple[Manifest, int]:
    """Copy a run from a place into the home; return what it has, and how many bytes were fetched.

    An interrupted pull goes on where it stopped.

    Raises:
        UnknownNameError: the place has no such run.
        OtherCopyError: the home has another copy of it, which stays.
        RunLockedError: another process is pulling it.
        StorageError: a piece is missing or damaged, or the home cannot be written.
    """
    manifest = place.manifest(run)
    if manifest is None:
        raise UnknownNameError("run", run, place.runs())
    path, aside = runs_dir() / run, home() / "pulling" / run
    try:
        if not path.exists():
            for folder in (aside.parent, aside, aside / "logs"):  # a mode is of the last folder only
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with alone_in(aside):
                if not path.exists():  # nobody has moved it there meanwhile
                    return manifest, _fetch_all(aside, path, manifest, place, progress)
    except HeldError as error:
        raise RunLockedError(f"{run} is being pulled by another process") from error
    except OSError as error:
        raise StorageError(f"cannot write {error.filename or aside}: {error.strerror}") from error
    if _same(path, manifest):
        return manifest, 0
    raise OtherCopyError(
        f"{run} is left as it is, since this home has another copy. If the one at {place.url} is to be "
        f"kept, `mcp-bench delete {run}` and pull it again; then `mcp-bench verify {run}`, and with "
        "--accept if it was recorded here"
    )


def _fetch_all(aside: Path, path: Path, manifest: Manifest, place: Place, progress: Progress) -> int:
    """Complete the folder `aside` and move it to `path`; return the bytes fetched."""
    fetched = 0
    for name, pieces in manifest.files.items():
        fetched += _fetch(aside / name, manifest.run, pieces, place, progress)
    for name in _names(aside) - set(manifest.files):
        (aside / name).unlink()  # of another state of the run, whose pull was interrupted
    _move(aside, path, manifest)
    return fetched


def _fetch(file: Path, run: str, pieces: list[Piece], place: Place, progress: Progress) -> int:
    """Write a file from its pieces, except for those that it has already; return the bytes fetched."""
    fetched = 0
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with open(descriptor, "r+b") as out:  # noqa: PTH123 - it is open already
        at = 0
        for piece in pieces:
            out.seek(at)
            if sha256(out.read(piece.size)).hexdigest() != piece.sha256:
                data = place.piece(run, piece)
                out.seek(at)
                out.write(data)
                fetched += piece.size
            at += piece.size
            progress(piece.size)
        out.truncate(at)
    return fetched


def _move(aside: Path, path: Path, manifest: Manifest) -> None:
    """Move a complete copy among the runs.

    The ledger gets an entry for a run of this home's key that it does not know. Of one that it knows it has
    the last state: whether the copy is an earlier one is for `verify` to say.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = read_key(key_path()) if key_path().exists() else None
    ledger = ledger_of(path, key) if key is not None and key.id == manifest.key else None
    contents = ledger.read() if ledger else None
    if contents and any(entry.run == path.name for entry in contents.entries):
        ledger = None
    if ledger:
        ledger.enter("adding", path.name, manifest.state)
    aside.rename(path)
    if ledger:
        ledger.enter("added", path.name, manifest.state)
    with suppress(OSError):  # others are pulling
        aside.parent.rmdir()


def _same(path: Path, manifest: Manifest) -> bool:
    """Return whether a folder has exactly the files of a manifest."""
    if _names(path) != set(manifest.files):
        return False
    for name, pieces in manifest.files.items():
        with _opened(path / name) as file:
            if [sha256(data).hexdigest() for data in _pieces(file)] != [piece.sha256 for piece in pieces]:
                return False
    return True


def _names(run: Path) -> set[str]:
    """Return the files of a run that are copied: those of its folder and of its logs, and no links."""
    folders = [folder for folder in (run, run / "logs") if folder.is_dir()]
    found = [
        path for folder in folders for path in folder.iterdir() if path.is_file() and not path.is_symlink()
    ]
    names = {str(path.relative_to(run)) for path in found}
    return {name for name in names if NAME.fullmatch(name) and not LEFT_OUT.fullmatch(name)}


def _opened(file: Path) -> BinaryIO:
    try:
        return file.open("rb")
    except OSError as error:
        raise StorageError(f"cannot read {file}: {error.strerror}") from error


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    while data := file.read(PIECE_BYTES):
        yield data


def _ours(run: Path) -> _Ours:
    with database_errors(run), closing(open_reader(run / RECORDINGS, schema.recordings)) as db:
        row = applied_migrations(db, schema.recordings) and db.execute("SELECT * FROM runs").fetchone()
    if not row:
        raise StorageError(f"{run.name} is empty: there is nothing to push")
    named = stored_position(dict(row).get("ledger"))
    if not (run / GRADES).exists():
        return _Ours(str(row["key"]), "", named)
    with database_errors(run), closing(open_reader(run / GRADES, schema.grades)) as db:
        tag = seal_tag(db, run.name)
    return _Ours(str(row["key"]), tag.hex() if tag else "", named)
