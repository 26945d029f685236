"""Check one run row by row: contents by their tags, and completeness by seals."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from mcp_bench.recorder.store.signatures import OF_EPISODE, SEALED, Row, Signer, key_places, rows
from mcp_bench.recorder.verify.frame_order import FrameOrder

Change = Literal["edited", "removed", "added", "moved"]

SEALED_GRADES = "seals in grades.db"
SWAPS_AMONG = 60
"""At most this many changed rows of a table are compared with each other to find moved ones."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a row is. `episode` is set if the key is only unique within an episode."""

    table: str
    episode: str | None
    key: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One change of a row."""

    place: Place
    change: Change
    detail: str = ""


class RowCheck:
    """Checks one run, once. Errors of SQLite are left to the caller."""

    def __init__(
        self, recordings: sqlite3.Connection, grades: sqlite3.Connection | None, signer: Signer, run: str
    ) -> None:
        self.counts: dict[str, int] = {}
        """Rows by table."""
        self._db, self._grades, self._signer, self._run = recordings, grades, signer, run
        self._findings: dict[Place, Finding] = {}
        self._right: dict[Place, str] = {}
        """The tags that rows should have."""
        self._owner: dict[Place, str] = {}
        """The subject of the seal that should list a row."""
        self._sealed: dict[Place, str] = {}
        """The tags that seals list."""
        self._seals: set[str] = set()
        """The subjects of genuine seals; `SEALED_GRADES` for that of the grades."""
        self._ends: dict[str, tuple[int, str]] = {}
        """By subject, the last frame and its link when the seal was made."""
        self.state = ""
        """Tag of the genuine seal of the grades, in hexadecimal digits; empty without one."""

    @property
    def is_sealed(self) -> bool:
        """Whether seals cover the end of the run."""
        return self._run in self._seals and SEALED_GRADES in self._seals

    def findings(self) -> list[Finding]:
        """Return the changes, ordered by table and key."""
        for subject, contents in self._genuine_seals(self._db, "seals"):
            self._seals.add(subject)
            last, link, *_ = contents.pop("frames")
            self._ends[subject] = (last, link)
            for table, tags in contents.items():
                within = subject if table == "messages" else None
                self._sealed |= {Place(table, within, key): sealed for key, sealed in tags.items()}
        self._recording_of_grades()
        for table in ("runs", "episodes", *OF_EPISODE):
            if table in self._signer.columns:  # an earlier version has fewer
                self._contents(self._db, table)
        if self._grades is not None:
            for table in SEALED:
                if table in self._signer.columns:
                    self._contents(self._grades, table)
        self._frames()
        self._completeness()
        self._cross_references()
        return sorted(self._findings.values(), key=_in_order)

    def _rows(self, db: sqlite3.Connection, table: str) -> Iterator[Row]:
        return rows(db, self._signer.columns[table], table)

    def _note(self, place: Place, change: Change, detail: str = "") -> None:
        self._findings.setdefault(place, Finding(place, change, detail))

    def _genuine_seals(self, db: sqlite3.Connection, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
        self.counts[name] = 0
        for row in self._rows(db, "seals"):
            place, right = Place(name, None, str(row.key)), self._signer.tag("seals", row.values)
            self.counts[name] += 1
            if row.tag != right:
                self._note(place, "edited")
                continue
            self._right[place], self._owner[place] = right.hex(), self._run
            yield str(row.key), json.loads(str(row.values[1]))

    def _recording_of_grades(self) -> None:
        """Read the seal of the grades, which also has the tag of the recordings' seal."""
        if self._grades is None:
            return
        for subject, contents in self._genuine_seals(self._grades, SEALED_GRADES):
            self._seals.add(SEALED_GRADES)
            self.state = self._right[Place(SEALED_GRADES, None, subject)]
            self._sealed[Place("seals", None, self._run)] = str(contents.pop("recording"))
            for table, tags in contents.items():
                self._sealed |= {Place(table, None, key): sealed for key, sealed in tags.items()}

    # Contents ------------------------------------------------------------------------------------

    def _contents(self, db: sqlite3.Connection, table: str) -> None:
        changed = []
        self.counts[table] = 0
        for row in self._rows(db, table):
            place, right = _place(table, row), self._signer.tag(table, row.values)
            self.counts[table] += 1
            self._right[place], self._owner[place] = right.hex(), self._seal_of(table, row)
            if row.tag != right:
                changed.append(row)
        self._changed(table, changed, key_places(self._signer.columns[table], table))

    def _seal_of(self, table: str, row: Row) -> str:
        if table in OF_EPISODE and row.episode is not None:
            return str(row.episode)
        return SEALED_GRADES if table in SEALED else self._run

    def _changed(self, table: str, changed: Sequence[Row], places: Sequence[int]) -> None:
        for row in changed:
            place = _place(table, row)
            if other := self._former(table, row, changed[:SWAPS_AMONG], places):
                self._note(place, "moved", f"it was stored as {other}")
            elif self._owner[place] in self._seals and place not in self._sealed:
                self._note(place, "added")
            else:
                self._note(place, "edited")

    def _former(self, table: str, row: Row, changed: Sequence[Row], places: Sequence[int]) -> str | None:
        """Return the key that a row was stored under, if that is the key of another changed row."""
        for other in changed:
            values = list(row.values)
            for place in places:
                values[place] = other.values[place]
            if values != row.values and self._signer.tag(table, values) in (row.tag, other.tag):
                return str(other.key)
        return None

    # Order and completeness ----------------------------------------------------------------------

    def _frames(self) -> None:
        order = FrameOrder(self._signer)
        changed = [row for row in self._rows(self._db, "frames") if not order.add(row)]
        order.end(self._ends, self._run)
        self.counts["frames"] = order.count
        places = key_places(self._signer.columns["frames"], "frames")
        for row in changed:
            if other := self._former("frames", row, changed[:SWAPS_AMONG], places):
                self._note(_place("frames", row), "moved", f"it was stored as {other}")
        for number, change, detail in order.changes:
            self._note(Place("frames", None, str(number)), change, detail)

    def _completeness(self) -> None:
        for place, sealed in self._sealed.items():
            if place not in self._right:
                self._note(place, "removed")
            elif self._right[place] != sealed:
                self._note(place, "edited", "it is as it was at another time")
        for place in self._right.keys() - self._sealed.keys():
            own = place.table in ("seals", SEALED_GRADES) and place.key == self._run
            if self._owner[place] in self._seals and not own:
                self._note(place, "added")

    def _cross_references(self) -> None:
        """Check that everything is of this run, every ended episode has a seal, and every grade names it."""
        for table, column in (("runs", "id"), ("episodes", "run")):
            for (other,) in self._db.execute(f"SELECT id FROM {table} WHERE {column} <> ?", [self._run]):  # noqa: S608
                self._note(Place(table, None, str(other)), "added", "it is of another run")
        for (episode,) in self._db.execute("SELECT id FROM episodes WHERE ended_us IS NOT NULL"):
            if Place("seals", None, str(episode)) not in self._right:
                self._note(Place("seals", None, str(episode)), "removed")
        if self._grades is None:
            if self._run in self._seals:
                self._note(Place("grades", None, "(all)"), "removed", "there is no grades.db")
            return
        for what in ("grade", "scan"):
            for episode, recording in self._grades.execute(f"SELECT episode, recording FROM {what}s"):  # noqa: S608
                place = Place("seals", None, str(episode))
                if place not in self._right:
                    self._note(place, "removed", f"it has a {what}")
                elif not isinstance(recording, bytes) or recording.hex() != self._right[place]:
                    self._note(place, "edited", f"its {what} is of another state of the recording")


def _place(table: str, row: Row) -> Place:
    return Place(table, str(row.episode) if table == "messages" else None, str(row.key))


def _in_order(finding: Finding) -> tuple[str, str, int, str]:
    place = finding.place
    return place.table, place.episode or "", len(place.key), place.key
