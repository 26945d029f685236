"""A run as a folder: `recordings.db`, `grades.db`, `lock` and `logs/`, written by one process."""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import os
import shutil
import socket
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from mcp_bench.recorder.errors import RunLockedError, StorageError
from mcp_bench.recorder.paths import runs_dir
from mcp_bench.recorder.records import PlannedEpisode, RunInfo, now_us
from mcp_bench.recorder.store.grades import SealedGrades
from mcp_bench.recorder.store.journal import left_behind
from mcp_bench.recorder.store.keys import OtherKeyError
from mcp_bench.recorder.store.recording import Recording
from mcp_bench.servers.errors import UnknownNameError

RECORDINGS = "recordings.db"
GRADES = "grades.db"
_log = logging.getLogger(__name__)


class RunFolder:
    """One run, open for writing. Use it as a context manager: it holds the lock until it closes."""

    def __init__(self, path: Path, info: RunInfo | None) -> None:
        """Open the folder at `path`; use `create` or `resume` instead."""
        self.path = path
        lock = _take_lock(path / "lock")
        try:
            self.recording = Recording(path / RECORDINGS)
            try:
                if info is not None:
                    self.recording.add_run(info)
                self.info = self.recording.info()
                if self.info.settings.get("durability") == "full":
                    self.recording.set_durability("full")
                if not (path / GRADES).exists() and self.recording.attempts():
                    raise StorageError(
                        f"{path / GRADES} is missing: resuming would record every episode again. Put it back"
                    )
                self.grades = SealedGrades(path / GRADES, self.recording.key, self.recording.sealed)
                # the seal of the grades names that of the recordings: remove it first, make it last
                self.grades.unseal(self.info.id)
                self.recording.unseal()
                self.recording.observers.add_registered()
            except BaseException:
                self.recording.close()
                raise
        except BaseException:
            os.close(lock)
            raise
        self._lock: int | None = lock
        self.id = self.info.id

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
            raise StorageError(
                f"cannot write to {error.filename}: {error.strerror}. Recordings are stored in "
                "$MCP_BENCH_HOME; set it to a folder that you can write to"
            ) from error
        try:
            return cls(path, info)
        except BaseException:
            shutil.rmtree(path, ignore_errors=True)
            raise

    @classmethod
    def resume(cls, run_id: str, *, root: Path | None = None) -> RunFolder:
        """Open the folder of an interrupted run, and mark its unfinished attempts as invalid.

        Raises:
            UnknownNameError: there is no such run; the message lists near matches.
            RunLockedError: another process is recording it.
            StorageError: a database is damaged, or from a later version.
        """
        root = runs_dir() if root is None else root
        known = {path.parent.name for path in root.glob(f"*/{RECORDINGS}")}
        if run_id not in known:
            raise UnknownNameError("run", run_id, known)
        folder = cls.reopen(root / run_id)
        try:
            folder.recording.mark_died(folder.done())
        except BaseException:
            folder.close()
            raise
        return folder

    @classmethod
    def reopen(cls, path: Path) -> RunFolder:
        """Open the folder of a run to add to it.

        Raises:
            RunLockedError: as for `resume`.
            StorageError: as for `resume`.
        """
        return cls(path, None)

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
        """Seal the run, close its databases and release the lock. Closing twice is fine."""
        if self._lock is not None:
            lock, self._lock = self._lock, None
            try:
                self._seal()
                self.grades.close()
                self.recording.close()
            finally:
                os.close(lock)

    def _seal(self) -> None:
        try:
            self.grades.seal(self.id, self.recording.seal())
        except StorageError as error:  # the rows are intact, and `verify` reports the end as open
            _log.warning("run %s could not be sealed: %s", self.id, error)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def take_in_journal(path: Path) -> None:
    """Commit the journal of a killed writer to the database.

    A journal whose writer is running is left alone, and so is one that cannot be committed here.
    """
    if not left_behind(path):
        return
    try:
        lock = _take_lock(path / "lock")
    except RunLockedError:
        return
    except StorageError as error:
        _log.warning("the last moments of run %s are missing: %s", path.name, error)
        return
    try:
        Recording(path / RECORDINGS).close()
    except OtherKeyError as error:
        _log.warning("the last moments of run %s are missing: %s", path.name, error)
    finally:
        os.close(lock)


def is_being_written(path: Path) -> bool:
    """Return whether a process has the run open for writing."""
    try:
        lock = os.open(path / "lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(lock)
    return False


def _take_lock(path: Path) -> int:
    # the kernel releases a flock when its process dies, however it dies
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(lock, 0)
        owner = {"pid": os.getpid(), "host": socket.gethostname(), "since_us": now_us()}
        os.pwrite(lock, json.dumps(owner).encode(), 0)
    except OSError as error:
        os.close(lock)
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            raise StorageError(f"cannot lock {path}: {error.strerror}") from error
        raise RunLockedError(f"the run {path.parent.name} is being written by {_owner(path)}") from error
    return lock


def _owner(path: Path) -> str:
    try:
        owner = json.loads(path.read_text())
        since = datetime.fromtimestamp(owner["since_us"] / 1e6, tz=UTC)
        return f"process {owner['pid']} on {owner['host']} since {since:%Y-%m-%d %H:%M:%S} UTC"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
