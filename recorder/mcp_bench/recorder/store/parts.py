"""Parts of a run: the folders of its referee processes, whose episodes are taken into the run as they end.

A part is a folder below `runs/<id>/parts/` with databases, journal and logs like a run's. One referee process
writes it. The run's own process copies each episode that has ended: its rows get the next numbers there, new
tags and a new seal. What it copies it checks first, by the tags and the seal that the part has. A grade comes
last, so an episode whose copying was interrupted is completed by the next call.
"""

from __future__ import annotations

import json
import logging
import shutil
import sqlite3
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_bench.recorder.errors import RunLockedError, StorageError, database_errors
from mcp_bench.recorder.records import EPISODE_ID
from mcp_bench.recorder.store import schema
from mcp_bench.recorder.store.database import applied_migrations, open_reader, read_only_uri
from mcp_bench.recorder.store.keys import key_for, refuse_other_key
from mcp_bench.recorder.store.signatures import (
    NO_LINK,
    OF_EPISODE,
    Signer,
    rows,
    seal_episode,
    signer_of,
)

if TYPE_CHECKING:
    from mcp_bench.recorder.records import PlannedEpisode
    from mcp_bench.recorder.store.run_folder import RunFolder

PARTS = "parts"
MOVED = "moved"
"""Folder of a part: folders of attempts that were recorded on other machines, and moved here complete. The
key that signed them is beside it, and nothing but these attempts."""
ORDERED = "ordered.json"
"""File of a moved folder: the attempt that was ordered. It is written here."""
RECORDINGS, GRADES = "recordings.db", "grades.db"
ENDING_SECONDS = 20.0
"""How long a referee process whose run was killed may take to end its agents."""
OF_GRADES = ("scores", "rewards", "asked", "scans", "grades")
"""Tables with rows of episodes, in the order of copying: an episode with a grade is done."""
_HAS = """
    SELECT 1 FROM main.grades WHERE episode = :episode UNION ALL
    SELECT 1 FROM main.scans WHERE episode = :episode UNION ALL
    SELECT 1 FROM main.asked WHERE episode = :episode
"""
_SLOTS = "SELECT id, task, seed, repeat, attempt, started_us FROM episodes"
_NUMBERED = {"rewards": "id", "asked": "id", "flags": "id"}
"""Tables whose rows get new numbers, besides frames and calls."""
_log = logging.getLogger(__name__)

Values = Mapping[str, object]


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
        found = [name for (name,) in source.execute("SELECT id FROM episodes ORDER BY id")]
        subjects = {name for (name,) in source.execute("SELECT subject FROM seals")}
        signer = signer_of(source, key)
        wanted = [name for name in found if name in subjects and (episodes is None or name in episodes)]
        there = {episode for episode, *_ in run.recording.attempts()}
        new = [name for name in wanted if name not in there]
        with _attached(run, part) as db:
            copy = _Copy(source, db, signer, run.recording.signer, part)
            copy.follow_links(new, after)
            for episode in new:
                copy.episode(episode, after)
            if episodes is None:
                copy.loose_flags()
        if (part / GRADES).exists():
            with (
                closing(open_reader(part / GRADES, schema.grades)) as sealed,
                run.grades.with_attached(part / GRADES) as db,
            ):
                copy = _Copy(sealed, db, signer, run.recording.signer, part)
                for episode in wanted:
                    copy.grade(episode, run.recording.sealed(episode))
    for log in (part / "logs").glob("*"):
        if log.name.partition(".")[0] in wanted and not log.is_symlink():
            shutil.move(log, run.path / "logs" / log.name)


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
    there = {episode: [episode, *rest] for episode, *rest in run.recording.attempts()}
    plan = {(one.task, one.seed, one.repeat) for one in run.info.plan}
    for episode, task, seed, repeat, attempt, started in found:
        own = [episode, task, seed, repeat, attempt]
        if len(found) > 1:
            why = "it has several attempts"
        elif not (isinstance(episode, str) and EPISODE_ID.fullmatch(episode)):
            why = f"{episode!r} is no id of an episode"
        elif slot is not None and own[1:] != slot:
            why = f"{episode} is not the attempt that was ordered"
        elif slot is None and (task, seed, repeat) not in plan:
            why = f"{episode} is not planned in this run"
        elif episode in there and (there[episode] != own or not _began(run, episode, started)):
            why = f"this run has another episode with the id {episode}"
        else:
            continue
        raise _refused(folder, why)


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
        raise _refused(folder, f"what was ordered is not known: {error}") from error


def _began(run: RunFolder, episode: str, started_us: object) -> bool:
    """Return whether an episode of the run began at a time: it was taken in, maybe without its grade."""
    sql = "SELECT started_us FROM episodes WHERE id = ?"
    with run.recording.writer.lock:
        row = run.recording.writer.connection.execute(sql, [episode]).fetchone()
    return row is not None and row[0] == started_us


def take_in_dead(
    run: RunFolder, part: Path, reopen: Callable[[Path], RunFolder], *, seconds: float = ENDING_SECONDS
) -> None:
    """Take in a part whose process has ended, and delete it. Open episodes are marked: their referee died.

    What was moved here from other machines is taken in, too. A folder that cannot be keeps back no other.

    Args:
        run: the run.
        part: its part.
        reopen: opens the folder of a part for writing.
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
        folder = _reopened(part, reopen, seconds)
        try:
            folder.mark_died()
        finally:
            folder.close()
        take_in(run, part)
    if problems:
        raise problems[0]
    shutil.rmtree(part, ignore_errors=True)


def take_in_all(run: RunFolder, reopen: Callable[[Path], RunFolder], *, wait: bool = True) -> None:
    """Take in all parts that a killed run has left. One that cannot be taken in keeps back no other.

    Args:
        run: the run.
        reopen: opens the folder of a part for writing.
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
            take_in_dead(run, part, reopen, seconds=ENDING_SECONDS if wait else 0.0)
        except StorageError as error:
            problems.append(error)
    if problems:
        raise problems[0]
    shutil.rmtree(folder, ignore_errors=True)


def left_parts(path: Path) -> list[Path]:
    """Return the parts of the run in the folder `path` that are begun, and not taken in completely.

    Folders that were moved there from other machines count as parts.
    """
    places = (f"{PARTS}/*", f"{PARTS}/*/{MOVED}/*")
    return [file.parent for place in places for file in path.glob(f"{place}/{RECORDINGS}")]


def _has_rows(part: Path) -> bool:
    """Return whether a part was begun: its process may have been killed before."""
    file = part / RECORDINGS
    if not file.exists():
        return False
    with closing(open_reader(file, schema.recordings)) as db, database_errors(file):
        begun = bool(applied_migrations(db, schema.recordings))
        return begun and db.execute("SELECT 1 FROM runs").fetchone() is not None


def _reopened(part: Path, reopen: Callable[[Path], RunFolder], seconds: float) -> RunFolder:
    until = time.monotonic() + seconds
    while True:
        try:
            return reopen(part)
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
        writer.connection.execute("ATTACH ? AS part", [read_only_uri(part / RECORDINGS)])
        try:
            with writer.transaction() as db:
                yield db
                last = _last(db)
            run.recording.continue_after(*last)
        finally:
            writer.connection.execute("DETACH part")


def _last(db: sqlite3.Connection) -> tuple[int, bytes, int]:
    """Return the number and link of a run's last frame, and the number of its last call."""
    row = db.execute("SELECT id, link FROM main.frames ORDER BY id DESC LIMIT 1").fetchone()
    (call,) = db.execute("SELECT coalesce(max(id), 0) FROM main.calls").fetchone()
    return (row[0], row[1], call) if row else (0, NO_LINK, call)


@dataclass
class _Copy:
    """Copies rows from a part into the run's database, to which the part is attached."""

    source: sqlite3.Connection
    target: sqlite3.Connection
    before: Signer
    after: Signer
    part: Path
    tags: dict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    """Of the rows of the current episode in the part, by table and key."""

    def follow_links(self, episodes: Collection[str], after: int) -> None:
        """Check that no frame behind `after` is missing, up to the ends that the seals of `episodes` name.

        Raises:
            StorageError: one is missing.
        """
        ends = {(number, link) for number, link in (self._seal(one)["frames"] for one in episodes)}
        before = NO_LINK
        ends.discard((0, before.hex()))
        frames = "SELECT id, tag, link FROM frames WHERE id >= ? ORDER BY id"
        for number, tag, link in self.source.execute(frames, [after]):
            if number != after and link != self.before.link(before, tag):
                raise self._refused(f"frames before the frame {number} are missing, or it was changed")
            ends.discard((number, link.hex()))
            before = link
        if ends:
            raise self._refused(f"the frame {min(ends)[0]} is missing or was changed")

    def episode(self, episode: str, after: int) -> None:
        """Copy the rows of an episode, and seal them."""
        self.tags.clear()
        last, link, last_call = _last(self.target)
        self._rows("episodes", "id = ?", episode)
        frames = dict[object, int]()
        found = self._checked("frames", "episode = ? AND id > ?", episode, after)
        for number, (old, values) in enumerate(found, last + 1):
            frames[old] = number
            tag = self._tag("frames", values, {"id": number})
            link = self.after.link(link, tag)
            self._insert("frames", old, {"id": number, "tag": tag, "link": link})
        for number, (old, values) in enumerate(self._checked("calls", "episode = ?", episode), last_call + 1):
            ends = {name: values[name] for name in ("request_frame", "response_frame")}
            if lost := [frame for frame in ends.values() if frame is not None and frame not in frames]:
                raise self._refused(f"the frame {lost[0]} of {episode} is missing")
            self._add("calls", old, values, {"id": number} | {name: frames.get(ends[name]) for name in ends})
        for table in OF_EPISODE[1:]:
            self._rows(table, "episode = ?", episode)
        self._check_seal(episode)
        seal_episode(self.target, self.after, episode)

    def grade(self, episode: str, seal: bytes | None) -> None:
        """Copy what is sealed about an episode, if the run does not have it; `seal` is the run's seal."""
        if self.target.execute(_HAS, {"episode": episode}).fetchone():
            return
        for table in OF_GRADES:
            named = table in ("grades", "scans")
            self._rows(table, "episode = ?", episode, recording=seal if named else None)

    def loose_flags(self) -> None:
        """Copy flags without an episode that the run does not have."""
        for old, values in self._checked("flags", "episode IS NULL"):
            same = (values["time_us"], values["kind"], values["detail"])
            sql = "SELECT 1 FROM main.flags WHERE episode IS NULL AND (time_us, kind, detail) = (?, ?, ?)"
            if not self.target.execute(sql, same).fetchone():
                self._add("flags", old, values, {"id": self._next("flags", "id")})

    def _rows(self, table: str, where: str, *parameters: object, recording: bytes | None = None) -> None:
        for old, values in self._checked(table, where, *parameters):
            change: dict[str, object] = {} if recording is None else {"recording": recording}
            if table in _NUMBERED:
                change[_NUMBERED[table]] = self._next(table, _NUMBERED[table])
            self._add(table, old, values, change)

    def _next(self, table: str, key: str) -> int:
        found = self.target.execute(f"SELECT coalesce(max({key}), 0) + 1 FROM main.{table}")  # noqa: S608
        return int(found.fetchone()[0])

    def _checked(
        self, table: str, where: str, *parameters: object
    ) -> Iterator[tuple[object, dict[str, object]]]:
        """Yield the key and the values of rows whose tags are genuine.

        Raises:
            StorageError: a tag is not.
        """
        names = self.before.columns[table]
        tagged = [name for name in names if name not in ("tag", "link")]
        for row in rows(self.source, names, table, where, *parameters):
            if row.tag is None or row.tag != self.before.tag(table, row.values):
                raise self._refused(f"the row {row.key} of {table} was changed")
            self.tags[table][str(row.key)] = row.tag.hex()
            place = (row.episode, row.key) if table == "messages" else row.number
            yield place, dict(zip(tagged, row.values, strict=True))

    def _add(self, table: str, place: object, values: Values, change: Values) -> None:
        self._insert(table, place, {**change, "tag": self._tag(table, values, change)})

    def _tag(self, table: str, values: Values, change: Values) -> bytes:
        return self.after.tag(table, [change.get(name, value) for name, value in values.items()])

    def _insert(self, table: str, place: object, change: Values) -> None:
        names = self.after.columns[table]
        picked = ", ".join(f":{name}" if name in change else name for name in names)
        where = "episode = :_0 AND position = :_1" if isinstance(place, tuple) else "rowid = :_0"
        places = place if isinstance(place, tuple) else (place,)
        self.target.execute(
            f"INSERT INTO main.{table} ({', '.join(names)})"  # noqa: S608 - names of our own schema
            f" SELECT {picked} FROM part.{table} WHERE {where}",
            {**change, **{f"_{number}": value for number, value in enumerate(places)}},
        )

    def _check_seal(self, episode: str) -> None:
        """Raise StorageError if the part's seal of the episode lists other rows than those that were read."""
        listed = self._seal(episode)
        if any(listed[table] != self.tags[table] for table in ("episodes", *OF_EPISODE)):
            raise self._refused(f"rows of {episode} are missing or were added")

    def _seal(self, episode: str) -> dict[str, Any]:
        """Return what the part's seal of an episode lists.

        Raises:
            StorageError: it is not genuine.
        """
        row = self.source.execute("SELECT contents, tag FROM seals WHERE subject = ?", [episode]).fetchone()
        text, tag = row
        if tag != self.before.tag("seals", (episode, text)):
            raise self._refused(f"the seal of {episode} was changed")
        found: dict[str, Any] = json.loads(text)
        return found

    def _refused(self, why: str) -> StorageError:
        return _refused(self.part, why)


def _refused(part: Path, why: str) -> StorageError:
    return StorageError(
        f"{part}: {why}, so nothing of it is taken in. To go on without its episodes, move this folder away"
    )
