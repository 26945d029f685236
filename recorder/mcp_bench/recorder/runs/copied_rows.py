"""Copies the rows of one episode from a part of a run into the run: new numbers, new tags, a new seal."""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcp_bench.recorder.errors import StorageError
from mcp_bench.recorder.store.signatures import (
    NO_LINK,
    OF_EPISODE,
    Signer,
    rows,
    seal_episode,
)

Values = Mapping[str, object]


OF_GRADES = ("scores", "rewards", "asked", "scans", "grades")
"""Tables with rows of episodes, in the order of copying: an episode with a grade is done."""
_HAS = """
    SELECT 1 FROM main.grades WHERE episode = :episode UNION ALL
    SELECT 1 FROM main.scans WHERE episode = :episode UNION ALL
    SELECT 1 FROM main.asked WHERE episode = :episode
"""
_NUMBERED = {"rewards": "id", "asked": "id", "flags": "id"}
"""Tables whose rows get new numbers, besides frames and calls."""


@dataclass
class CopiedRows:
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
        ends = {(number, link) for number, link, *_ in (self._seal(one)["frames"] for one in episodes)}
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
        last, link, last_call = last_numbers(self.target)
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
        seal_episode(self.target, self.after, episode, last)

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
        return refused(self.part, why)


def last_numbers(db: sqlite3.Connection) -> tuple[int, bytes, int]:
    """Return the number and link of a run's last frame, and the number of its last call."""
    row = db.execute("SELECT id, link FROM main.frames ORDER BY id DESC LIMIT 1").fetchone()
    (call,) = db.execute("SELECT coalesce(max(id), 0) FROM main.calls").fetchone()
    return (row[0], row[1], call) if row else (0, NO_LINK, call)


def refused(part: Path, why: str) -> StorageError:
    """Return the error about a part that is not taken in."""
    return StorageError(
        f"{part}: {why}, so nothing of it is taken in. To go on without its episodes, move this folder away"
    )
