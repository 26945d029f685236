"""A run as a folder: `recordings.db`, `grades.db`, `lock` and `logs/`, written by one process."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import shutil
from pathlib import Path
from types import TracebackType
from typing import Self

from mcp_bench.recorder.errors import StorageError, home_error
from mcp_bench.recorder.paths import runs_dir
from mcp_bench.recorder.records import PlannedEpisode, RunInfo
from mcp_bench.recorder.runs.lock import LOCK, is_being_written, take_lock
from mcp_bench.recorder.store.grades import SealedGrades
from mcp_bench.recorder.store.keys import key_for
from mcp_bench.recorder.store.ledger import ledger_of
from mcp_bench.recorder.store.recording import Recording

RECORDINGS = "recordings.db"
GRADES = "grades.db"
PARTS = "parts"
MOVED = "moved"
"""Folder of a part: folders of attempts that were recorded on other machines, and moved here complete. The
key that signed them is beside it, and nothing but these attempts."""
_log = logging.getLogger(__name__)


class RunFolder:
    """One run, open for writing. Use it as a context manager: it holds the lock until it closes."""

    def __init__(self, path: Path, info: RunInfo | None, *, sealing: bool = True) -> None:
        """Open the folder at `path`; use `create`, `reopen` or `completing` instead."""
        self.path = path
        self._sealing = sealing
        self.state = ""
        """When it is closed: the tag of its last seal, in hexadecimal digits; empty if it is not sealed."""
        with contextlib.ExitStack() as undo:
            lock = take_lock(path / LOCK)
            undo.callback(os.close, lock)
            self.recording = Recording(path / RECORDINGS)
            undo.callback(self.recording.close)
            self._ledger = ledger_of(path, self.recording.key)
            if info is not None:
                self._add(info)
            self.info = self.recording.info()
            if self.info.settings.durability == "full":
                self.recording.set_durability("full")
            if not (path / GRADES).exists() and self.recording.attempts():
                raise StorageError(
                    f"{path / GRADES} is missing: resuming would record every episode again. Put it back"
                )
            self.grades = SealedGrades(path / GRADES, self.recording.signer, self.recording.sealed)
            undo.callback(self.grades.close)
            if info is None and sealing:
                self._unseal()
            if self.info.settings.imported is None:  # what another program recorded is no event here
                self.recording.observers.add_registered()
            undo.pop_all()
        self._lock: int | None = lock
        self.id = self.info.id

    def _add(self, info: RunInfo) -> None:
        entered = self._ledger.enter("began", info.id) if self._ledger else None
        try:
            self.recording.add_run(info, entered)
        except BaseException:
            if self._ledger:
                self._ledger.enter("removing", info.id)
            raise

    def _unseal(self) -> None:
        """Remove the seals of the run, since more rows will follow."""
        run = self.info.id
        entered = self._ledger.enter("opening", run, self.grades.state(run)) if self._ledger else None
        # the seal of the grades names that of the recordings: remove it first, make it last
        self.grades.unseal(run)
        self.recording.unseal(entered)
        if self._ledger:
            self._ledger.enter("opened", run)

    @classmethod
    def create(cls, info: RunInfo, *, root: Path | None = None) -> RunFolder:
        """Create the folder of a new run below `root` (default: `runs_dir()`).

        Raises:
            StorageError: it cannot be written, or a run with this id exists.
        """
        root = runs_dir() if root is None else root
        path = root / info.id
        try:
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.mkdir(mode=0o700)
            (path / "logs").mkdir(mode=0o700)
        except FileExistsError as error:
            raise StorageError(f"cannot create {path}: {error.filename} already exists") from error
        except OSError as error:
            raise home_error(error.filename, error) from error
        try:
            return cls(path, info)
        except BaseException:
            shutil.rmtree(path, ignore_errors=True)
            raise

    @classmethod
    def reopen(cls, path: Path) -> RunFolder:
        """Open the folder of a run to add to it; see `resume_run` for one that was interrupted.

        Raises:
            RunLockedError: another process is recording it.
            StorageError: a database is damaged, or from a later version.
        """
        return cls(path, None)

    @classmethod
    def completing(cls, path: Path) -> RunFolder:
        """Open the folder of a run whose writer was killed, to add what that had stored elsewhere.

        Seals and ledger stay as they are: new ones would hide what somebody has changed since.

        Raises:
            RunLockedError, StorageError: as for `reopen`.
        """
        return cls(path, None, sealing=False)

    def mark_died(self) -> None:
        """Mark attempts that are not done as invalid: their referee died.

        An attempt that had ended, and lacks its grade, is sealed again. A scan of it would be one of another
        state of the recording; it goes first, since the referee can die here, too.
        """
        done = self.done()
        self.grades.drop_scans(self.recording.ended() - done)
        self.recording.mark_died(done)

    def done(self) -> set[str]:
        """Return the ids of the episodes that are done: graded, or ended in a run without grades."""
        return self.grades.graded() if self.info.graded else self.recording.ended()

    def pending(self) -> list[tuple[PlannedEpisode, int]]:
        """Return the planned slots that are not done, each with its next attempt number.

        Slots without an attempt come first.
        """
        finished = self.done()
        done: set[tuple[str, int, int]] = set()
        last: dict[tuple[str, int, int], int] = {}
        for episode, task, seed, repeat, attempt in self.recording.attempts():
            slot = (task, seed, repeat)
            last[slot] = max(attempt, last.get(slot, 0))
            if episode in finished:
                done.add(slot)
        slots = ((planned, (planned.task, planned.seed, planned.repeat)) for planned in self.info.plan)
        pending = [(planned, last.get(slot, 0) + 1) for planned, slot in slots if slot not in done]
        # a slot that always fails must not come first each time the run is resumed
        return sorted(pending, key=lambda slot: slot[1] > 1)

    def log_path(self, episode_id: str, stream: str) -> Path:
        """Return the log file of an episode for the agent's `stream` ("stdout", "stderr", ...)."""
        return self.path / "logs" / f"{episode_id}.{stream}.log"

    @property
    def is_open(self) -> bool:
        return self._lock is not None

    def close(self) -> None:
        """Seal the run, close its databases and release the lock. Closing twice is fine.

        A run with parts that could not be taken in gets no seal, since episodes are missing from it.
        """
        if self._lock is not None:
            lock, self._lock = self._lock, None
            try:
                if self._sealing and not left_parts(self.path):
                    self._seal()
                self.grades.close()
                self.recording.close()
                if self._sealing:
                    self._enter_state()
            finally:
                os.close(lock)

    def _seal(self) -> None:
        try:
            self.state = self.grades.seal(self.id, self.recording.seal()).hex()
        except StorageError as error:  # the rows are intact, and `verify` reports the end as open
            _log.warning("run %s could not be sealed: %s", self.id, error)

    def _enter_state(self) -> None:
        try:
            if self._ledger:
                self._ledger.enter("closed", self.id, self.state)
        except StorageError as error:  # `verify` accepts a sealed state that is newer than the last entry
            _log.warning("the end of run %s is not in the ledger: %s", self.id, error)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def left_parts(path: Path) -> list[Path]:
    """Return the parts of the run in the folder `path` that are begun, and not taken in completely.

    Folders that were moved there from other machines count as parts.
    """
    places = (f"{PARTS}/*", f"{PARTS}/*/{MOVED}/*")
    return [file.parent for place in places for file in path.glob(f"{place}/{RECORDINGS}")]


def remove_run(path: Path) -> None:
    """Delete the folder of a run, and enter that in the ledger. Links are removed, never followed.

    Raises:
        RunLockedError: a process is writing the run.
        StorageError: it cannot be deleted, or is a link to a folder elsewhere.
    """
    aside = path.parent.with_name("removing")
    for place in (path, aside):
        if place.is_symlink():
            raise StorageError(
                f"{place} is a link to a folder elsewhere, so nothing was deleted. Remove the link yourself"
            )
    lock = take_lock(path / LOCK)
    try:
        ledger = ledger_of(path, key_for(path))
        if ledger:
            ledger.enter("removing", path.name)
        try:
            # moved first: a folder that is deleted in part is no run
            aside.mkdir(mode=0o700, exist_ok=True)
            moved = aside / f"{path.name}.{secrets.token_hex(4)}"  # an earlier attempt may have been killed
            path.rename(moved)
            _remove_folder(moved)
            for left in aside.iterdir():  # by a process that was killed
                if left.is_dir() and not left.is_symlink() and not is_being_written(left):
                    _remove_folder(left)
            with contextlib.suppress(OSError):  # others are deleting
                aside.rmdir()
        except OSError as error:
            raise StorageError(f"cannot delete {error.filename}: {error.strerror}") from error
        if ledger:
            ledger.enter("removed", path.name)
    finally:
        os.close(lock)


def _remove_folder(path: Path) -> None:
    """Remove a folder that another process may be removing, too."""
    while path.exists():
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(path)
