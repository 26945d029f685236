"""What a person thinks of single episodes: good or bad, with a reason. In `notes.db` of the home.

Recordings are sealed and signed, so reviews are beside them. No figure depends on them; exports use them on
request. Grades are not copied into the file, but an operator may name them in words: mode 0600.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Literal

from mcp_bench.recorder.errors import database_errors, write_error
from mcp_bench.recorder.records import now_us
from mcp_bench.servers.errors import WrongUseError
from mcp_bench.servers.home import home

NAME = "notes.db"
LONGEST_REASON = 10_000
ReviewVerdict = Literal["good", "bad"]
_TABLE = """
    CREATE TABLE IF NOT EXISTS reviews (
        episode TEXT PRIMARY KEY,
        run TEXT NOT NULL,
        verdict TEXT CHECK (verdict IN ('good', 'bad')), -- NULL: only a note
        reason TEXT NOT NULL,
        changed_us INTEGER NOT NULL
    )
"""


@dataclass(frozen=True, slots=True)
class Review:
    """A person's verdict on an episode. `verdict` is None if there is only a note."""

    episode: str
    run: str
    verdict: ReviewVerdict | None
    reason: str = ""
    changed_us: int = 0


class Reviews:
    """The reviews of a home. Safe to use from several threads and processes."""

    def __init__(self) -> None:
        """Use `notes.db` in the home; it is created with the first review."""
        self.path = home() / NAME

    def of(self, episode: str) -> Review | None:
        """Return the review of an episode, if there is one."""
        return next(iter(self._select("WHERE episode = ?", episode)), None)

    def all(self) -> dict[str, Review]:
        """Return all reviews by episode, the newest last."""
        return {review.episode: review for review in self._select("ORDER BY changed_us")}

    def put(self, run: str, episode: str, verdict: str, reason: str) -> Review | None:
        """Store the review of an episode in place of an earlier one.

        Args:
            run: the episode's run.
            episode: its id.
            verdict: `good`, `bad` or empty.
            reason: any text. Without a verdict and a reason the review is removed.

        Returns:
            The review; None if it was removed.

        Raises:
            WrongUseError: there is no such verdict, or the reason is too long.
            StorageError: the file cannot be written.
        """
        if verdict not in ("good", "bad", ""):
            raise WrongUseError(f"{verdict!r} is no verdict: use good or bad")
        if len(reason) > LONGEST_REASON:
            raise WrongUseError(f"the reason has {len(reason)} characters: {LONGEST_REASON} at most")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        except OSError as error:
            raise write_error(self.path, error) from error
        with database_errors(self.path), closing(sqlite3.connect(self.path)) as db, db:
            db.execute(_TABLE)
            if verdict or reason:
                row = (episode, run, verdict or None, reason, now_us())
                db.execute("INSERT OR REPLACE INTO reviews VALUES (?, ?, ?, ?, ?)", row)
            else:
                db.execute("DELETE FROM reviews WHERE episode = ?", [episode])
        return self.of(episode)

    def _select(self, rest: str, *values: object) -> Iterator[Review]:
        with self._reading() as db:
            if db is None:
                return
            rows = db.execute(
                f"SELECT episode, run, verdict, reason, changed_us FROM reviews {rest}",  # noqa: S608 - ours
                values,
            ).fetchall()
        for row in rows:
            yield Review(*row)

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection | None]:
        if not self.path.exists():
            yield None
            return
        with (
            database_errors(self.path),
            # a writer that was killed left a journal, which a reader has to roll back
            closing(sqlite3.connect(f"{self.path.as_uri()}?mode=rw", uri=True)) as db,
        ):
            made = db.execute("SELECT 1 FROM sqlite_master WHERE name = 'reviews'").fetchone()
            yield db if made else None  # without the table, it was killed before its first review
