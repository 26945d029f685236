"""Parts of a run: the folders of its referee processes, whose episodes are taken into the run as they end.

A part is a folder below `runs/<id>/parts/` with databases, journal and logs like a run's. One referee process
writes it. The run's own process copies each episode that has ended: its rows get the next numbers there, new
tags and a new seal. What it copies it checks first, by the tags and the seal that the part has. A grade comes
last, so an episode whose copying was interrupted is completed by the next call.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import time
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from mcp_bench.recorder.errors import RunLockedError, StorageError, database_errors
from mcp_bench.recorder.paths import runs_dir
from mcp_bench.recorder.records import EPISODE_ID, PlannedEpisode
from mcp_bench.recorder.runs.copied_rows import CopiedRows, last_numbers, refused
from mcp_bench.recorder.runs.run_folder import GRADES, MOVED, PARTS, RECORDINGS, RunFolder
from mcp_bench.recorder.store import schema
from mcp_bench.recorder.store.database import applied_migrations, open_reader
from mcp_bench.recorder.store.keys import key_for, refuse_other_key
from mcp_bench.recorder.store.signatures import signer_of
from mcp_bench.servers.errors import UnknownNameError

ORDERED = "ordered.json"
"""File of a moved folder: the attempt that was ordered. It is written here."""
ENDING_SECONDS = 20.0
"""How long a referee process whose run was killed may take to end its agents."""
_SLOTS = "SELECT id, task, seed, repeat, attempt, started_us FROM episodes"


def new_part(run: RunFolder) -> Path:
    """Create the folder of another part.

    Raises:
        StorageError: it cannot be written.
    """
    folder = run.path / PARTS
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        number = 1 + max((int(path.name) for path in folder.iterdir() if path.name.isdecimal()), default=0)
        path = folder / str(number)
        path.mkdir(mode=0o700)
        (path / "logs").mkdir(mode=0o700)
    except OSError as error:
        raise StorageError(f"cannot write to {error.filename}: {error.strerror}") from error
    return path


def last_frame(part: Path) -> int:
    """Return the number of the last frame that is committed; later episodes have later ones.

    Raises:
        StorageError: the part cannot be read.
    """
    if not (part / RECORDINGS).exists():
        return 0
    with (
        database_errors(part),
        closing(open_reader(part / RECORDINGS, schema.recordings, check=False)) as db,
    ):
        found: int = db.execute("SELECT coalesce(max(id), 0) FROM frames").fetchone()[0]
    return found


def take_in(run: RunFolder, part: Path, episodes: Collection[str] | None = None, *, after: int = 0) -> None:
    """Copy episodes of a part that have ended into their run, with their logs. Those that are there stay.

    Args:
        run: the run, open for writing.
        part: its part, which another process may be writing.
        episodes: their ids; all that have ended if None, and the flags without an episode.
        after: a frame before which none of them has one, so that fewer are looked at.

    Raises:
        StorageError: a row of the part is not as it was stored, or the run cannot be written.
    """
    if not (part / RECORDINGS).exists():
        return
    with closing(open_reader(part / RECORDINGS, schema.recordings)) as source, database_errors(part):
        if not applied_migrations(source, schema.recordings):
            return
        key = key_for(part)
        refuse_other_key(source, part, key)
        signer = signer_of(source, key)
        wanted = _ended(source, episodes)
        new = [name for name in wanted if run.recording.began(name) is None]
        with _attached(run, part) as db:
            copy = CopiedRows(source, db, signer, run.recording.signer, part)
            copy.follow_links(new, after)
            for episode in new:
                copy.episode(episode, after)
            if episodes is None:
                copy.loose_flags()
        if (part / GRADES).exists():
            with (
                closing(open_reader(part / GRADES, schema.grades)) as sealed,
                run.grades.attached(part / GRADES) as db,
            ):
                copy = CopiedRows(sealed, db, signer, run.recording.signer, part)
                for episode in wanted:
                    copy.grade(episode, run.recording.sealed(episode))
    logs = run.path / "logs"
    try:
        logs.mkdir(mode=0o700, exist_ok=True)
        for log in (part / "logs").glob("*"):
            if log.name.partition(".")[0] in wanted and not log.is_symlink():
                shutil.move(log, logs / log.name)
    except OSError as error:
        raise StorageError(f"cannot move the logs of {part} to {logs}: {error}") from error


def _ended(part: sqlite3.Connection, episodes: Collection[str] | None) -> list[str]:
    """Return those of these episodes that have ended, or all that have, oldest first."""
    sql = "SELECT id FROM episodes JOIN seals ON subject = id"
    if episodes is None:
        return [name for (name,) in part.execute(f"{sql} ORDER BY id")]
    # one by one: what an episode costs must not grow with the part
    return [name for one in sorted(episodes) for (name,) in part.execute(f"{sql} WHERE id = ?", [one])]


def take_in_moved(run: RunFolder, folder: Path, order: tuple[PlannedEpisode, int] | None = None) -> None:
    """Take in a folder that was moved here from another machine, and delete it.

    Whoever has that machine chooses what its databases say, so the folder must have one attempt, and this one
    be the one that was ordered: else it could pass for another, or grade an episode of this machine. What was
    ordered is kept in the folder, for whoever tries to take it in again.

    Args:
        run: the run.
        folder: the folder.
        order: what was ordered, with the number of the attempt; None: what was kept, or else any attempt of
            the run's plan.

    Raises:
        StorageError: as for `take_in`, or the folder has anything else; it stays.
    """
    if (folder / RECORDINGS).exists():
        _check_moved(run, folder, order)
        take_in(run, folder)
    shutil.rmtree(folder, ignore_errors=True)


def _check_moved(run: RunFolder, folder: Path, order: tuple[PlannedEpisode, int] | None) -> None:
    slot = _ordered(folder, order)
    with (
        closing(open_reader(folder / RECORDINGS, schema.recordings)) as source,
        database_errors(folder),
    ):
        if not applied_migrations(source, schema.recordings):
            return
        found = source.execute(_SLOTS).fetchall()
    for episode, task, seed, repeat, attempt, started in found:
        own = (task, seed, repeat, attempt)
        there = run.recording.began(episode)
        if len(found) > 1:
            why = "it has several attempts"
        elif not (isinstance(episode, str) and EPISODE_ID.fullmatch(episode)):
            why = f"{episode!r} is no id of an episode"
        elif slot is not None and list(own) != slot:
            why = f"{episode} is not the attempt that was ordered"
        elif slot is None and own[:3] not in {(one.task, one.seed, one.repeat) for one in run.info.plan}:
            why = f"{episode} is not planned in this run"
        elif there is not None and there != (*own, started):  # it may have been taken in without its grade
            why = f"this run has another episode with the id {episode}"
        else:
            continue
        raise refused(folder, why)


def _ordered(folder: Path, order: tuple[PlannedEpisode, int] | None) -> list[object] | None:
    """Return task, seed, repeat and attempt of what was ordered, and keep them; None: they are not known.

    Raises:
        StorageError: they cannot be kept or read.
    """
    file = folder / ORDERED
    try:
        if order is not None:
            planned, number = order
            file.unlink(missing_ok=True)
            file.write_text(json.dumps([planned.task, planned.seed, planned.repeat, number]))
        return json.loads(file.read_text()) if file.exists() else None
    except (OSError, ValueError) as error:
        raise refused(folder, f"what was ordered is not known: {error}") from error


def take_in_dead(run: RunFolder, part: Path, *, seconds: float = ENDING_SECONDS) -> None:
    """Take in a part whose process has ended, and delete it. Open episodes are marked: their referee died.

    What was moved here from other machines is taken in, too. A folder that cannot be keeps back no other.

    Args:
        run: the run.
        part: its part.
        seconds: how long to wait for the end of the process.

    Raises:
        RunLockedError: the process still runs.
        StorageError: as for `take_in`; the part stays.
    """
    problems = []
    for moved in sorted((part / MOVED).glob("*")):
        try:
            take_in_moved(run, moved)
        except StorageError as error:
            problems.append(error)
    if _has_rows(part):
        folder = _reopened(part, seconds)
        try:
            folder.mark_died()
        finally:
            folder.close()
        take_in(run, part)
    if problems:
        raise problems[0]
    shutil.rmtree(part, ignore_errors=True)


def take_in_all(run: RunFolder, *, wait: bool = True) -> None:
    """Take in all parts that a killed run has left. One that cannot be taken in keeps back no other.

    Args:
        run: the run.
        wait: for processes that have not ended yet.

    Raises:
        StorageError: as for `take_in_dead`, of the first part that stays.
    """
    folder = run.path / PARTS
    if not folder.is_dir():
        return
    problems = []
    for part in sorted(folder.iterdir()):
        try:
            take_in_dead(run, part, seconds=ENDING_SECONDS if wait else 0.0)
        except StorageError as error:
            problems.append(error)
    if problems:
        raise problems[0]
    shutil.rmtree(folder, ignore_errors=True)


def resume_run(run_id: str, *, root: Path | None = None) -> RunFolder:
    """Open the folder of an interrupted run: take in its parts, and mark its unfinished attempts as invalid.

    Args:
        run_id: its whole id.
        root: the folder of all runs (default: `runs_dir()`).

    Raises:
        UnknownNameError: there is no such run; the message lists near matches.
        RunLockedError: another process is recording it.
        StorageError: a database is damaged, or from a later version.
    """
    root = runs_dir() if root is None else root
    known = {path.parent.name for path in root.glob(f"*/{RECORDINGS}")}
    if run_id not in known:
        raise UnknownNameError("run", run_id, known)
    folder = RunFolder.reopen(root / run_id)
    try:
        take_in_all(folder)
        folder.mark_died()
    except BaseException:
        folder.close()
        raise
    return folder


def _has_rows(part: Path) -> bool:
    """Return whether a part was begun: its process may have been killed before."""
    file = part / RECORDINGS
    if not file.exists():
        return False
    with closing(open_reader(file, schema.recordings)) as db, database_errors(file):
        begun = bool(applied_migrations(db, schema.recordings))
        return begun and db.execute("SELECT 1 FROM runs").fetchone() is not None


def _reopened(part: Path, seconds: float) -> RunFolder:
    until = time.monotonic() + seconds
    while True:
        try:
            return RunFolder.reopen(part)
        except RunLockedError as error:
            if time.monotonic() > until:
                raise RunLockedError(
                    f"a referee process of the run {part.parents[1].name} has not ended yet: try again in a "
                    f"moment ({error})"
                ) from error
            time.sleep(0.1)


@contextmanager
def _attached(run: RunFolder, part: Path) -> Iterator[sqlite3.Connection]:
    """Yield the run's recordings within a transaction, with those of a part as `part`."""
    writer = run.recording.writer
    with writer.lock:
        run.recording.flush()
        with writer.attached(part / RECORDINGS) as db:
            yield db
            last = last_numbers(db)
        run.recording.continue_after(*last)
