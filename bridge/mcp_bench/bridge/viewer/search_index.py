"""Full-text search over all conversations: an SQLite FTS5 index beside the runs.

The index can be deleted at any time: it is made again from the recordings, also if it is found to be damaged.
It holds what was said, called and returned, and no grades. Its folder has mode 0700. Episodes are added when
they have ended; long texts are cut. One process at a time adds to it, and others wait for it.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import sqlite3
import threading
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from mcp_bench.bridge.viewer.recordings import Library, signature
from mcp_bench.recorder.conversations.load import conversation
from mcp_bench.recorder.errors import StorageError
from mcp_bench.recorder.runs.find import check_no_copy
from mcp_bench.recorder.runs.reader import RunReader, StoredEpisode
from mcp_bench.servers.home import home

FOLDER, FILE, LOCK = "view", "search-4.db", "lock"
"""The number changes with the tables and with what is in them."""
MOST_OF_A_TEXT = 8_000
MARK, UNMARK = "\x02", "\x03"
_COMMIT_EPISODES = 100
_TABLES = """
    CREATE VIRTUAL TABLE IF NOT EXISTS texts USING fts5 (
        text, run UNINDEXED, episode UNINDEXED, position UNINDEXED, kind UNINDEXED,
        tokenize = "unicode61 remove_diacritics 2 tokenchars '_'"
    );
    CREATE TABLE IF NOT EXISTS episodes (
        id TEXT PRIMARY KEY, run TEXT NOT NULL, task TEXT NOT NULL, agent TEXT NOT NULL, model TEXT
    ) WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS episodes_of_run ON episodes (run);
    CREATE TABLE IF NOT EXISTS runs (id TEXT PRIMARY KEY, signature TEXT NOT NULL) WITHOUT ROWID;
"""
_SEARCH = f"""
    SELECT t.run, t.episode, t.position, t.kind, snippet(texts, 0, '{MARK}', '{UNMARK}', '…', 24),
           e.task, e.agent, e.model
    FROM texts t JOIN episodes e ON e.id = t.episode
    WHERE texts MATCH ? AND (? = '' OR t.run = ?)
        AND (? IS NULL OR t.episode IN (SELECT value FROM json_each(?)))
        AND (? = '' OR (e.task = ? AND t.kind = 'task'))
    ORDER BY rank LIMIT ?
"""  # noqa: S608 - constants
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Hit:
    """One message that matches. `excerpt` has `MARK` and `UNMARK` around what was searched for."""

    run: str
    episode: str
    position: int
    kind: str
    excerpt: str
    task: str
    agent: str
    model: str | None


class SearchIndex:
    """The index of a home. Safe to use from several threads."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._path = home() / FOLDER / FILE
        self._updating = threading.Lock()
        self._thread: threading.Thread | None = None
        self.left = 0
        """Runs that are still to be indexed."""
        self._damage: sqlite3.Error | None = None
        self.problem = ""
        """Why the last update failed."""
        self.unreadable: list[str] = []
        """Episodes and whole runs that cannot be read, and why: what they say is not found."""

    def refresh(self, wait: float) -> None:
        """Start to add what is new, in a thread, and wait for its end for some seconds."""
        with self._updating:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._update, daemon=True)
                self._thread.start()
            thread = self._thread
        thread.join(wait)

    @property
    def complete(self) -> bool:
        """Whether no update is in progress."""
        return self._thread is None or not self._thread.is_alive()

    def search(
        self, words: str, most: int, run: str = "", among: Collection[str] | None = None, task: str = ""
    ) -> list[Hit]:
        """Return the messages that contain all words, or words that begin with them, the best first.

        Args:
            words: what they contain.
            most: how many to return.
            run: only messages of this run.
            among: only messages of these episodes.
            task: only the names of episodes at this task. The words must be its name.
        """
        terms = [f'"{word}"*' for word in words.replace('"', " ").split() if any(map(str.isalnum, word))]
        if not terms or not self._path.exists():
            return []
        listed = None if among is None else json.dumps(list(among))
        values = (" ".join(terms), run, run, listed, listed, task, task, most)
        try:
            with closing(sqlite3.connect(f"{self._path.as_uri()}?mode=ro", uri=True)) as db:
                return [Hit(*row) for row in db.execute(_SEARCH, values)]
        except sqlite3.OperationalError as error:  # it is being made at this moment
            _log.info("search: %s", error)
        except sqlite3.DatabaseError as error:
            self._damage = error
            self.refresh(0)
        return []

    def _update(self) -> None:
        try:
            with self._alone():
                if self._damage is not None:
                    self._remove(self._damage)
                    self._damage = None
                try:
                    self._write()
                except sqlite3.OperationalError:  # the disk is full, the file may not be written
                    raise
                except sqlite3.DatabaseError as error:
                    self._remove(error)
                    self._write()
            self.problem = ""
        except (sqlite3.Error, OSError) as error:
            self.problem = str(error)
            _log.warning("the search index %s cannot be updated: %s", self._path, error)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Wait until no other process adds to the index: each would do all of the work."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._path.parent.chmod(0o700)
        lock = os.open(self._path.with_name(LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _remove(self, error: sqlite3.Error) -> None:
        _log.warning("the search index %s is damaged (%s): it is made again", self._path, error)
        for end in ("", "-wal", "-shm"):
            self._path.with_name(f"{FILE}{end}").unlink(missing_ok=True)

    def _write(self) -> None:
        for older in self._path.parent.glob("search-*.db*"):
            if not older.name.startswith(FILE):
                older.unlink(missing_ok=True)
        with closing(sqlite3.connect(self._path, timeout=30)) as db:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = OFF")  # it can be made again
            db.executescript(_TABLES)
            self._update_with(db)

    def _update_with(self, db: sqlite3.Connection) -> None:
        known = dict(db.execute("SELECT id, signature FROM runs"))
        paths = {path.name: path for path in self._library.paths()}
        if gone := known.keys() - paths.keys():
            self._forget(db, gone)
        changed = [
            (path, text) for name, path in paths.items() if known.get(name) != (text := repr(signature(path)))
        ]
        unreadable: list[str] = []
        for done, (path, text) in enumerate(changed):
            self.left = len(changed) - done
            problems = self._add(db, path)
            unreadable += problems
            # without its signature a run is read again next time
            db.execute("INSERT OR REPLACE INTO runs VALUES (?, ?)", (path.name, "" if problems else text))
            db.commit()
        self.left, self.unreadable = 0, unreadable

    def _forget(self, db: sqlite3.Connection, runs: Collection[str]) -> None:
        """Remove runs, all at once: the texts have no index by run, so each removal reads all of them."""
        listed = json.dumps(list(runs))
        for table, column in (("texts", "run"), ("episodes", "run"), ("runs", "id")):
            db.execute(
                f"DELETE FROM {table} WHERE {column} IN (SELECT value FROM json_each(?))",  # noqa: S608
                [listed],
            )
        db.commit()

    def _add(self, db: sqlite3.Connection, path: Path) -> list[str]:
        """Add the new episodes of a run; return what of them cannot be read."""
        there = {episode for (episode,) in db.execute("SELECT id FROM episodes WHERE run = ?", [path.name])}
        unreadable: list[str] = []
        try:
            with RunReader(path) as reader:
                if (summary := reader.summary()) is not None:
                    check_no_copy(path, summary.id)
                new = [one for one in reader.episode_ids() if one not in there]
                for at, episode in enumerate(new):
                    try:
                        self._add_episode(db, reader, episode)
                    except StorageError as error:
                        unreadable.append(f"{episode}: {error}")
                    if at % _COMMIT_EPISODES == 0:
                        db.commit()
        except StorageError as error:
            unreadable.append(f"{path.name}: {error}")
        return unreadable

    def _add_episode(self, db: sqlite3.Connection, reader: RunReader, episode: str) -> None:
        """Add an episode if it has ended.

        Raises:
            StorageError: it cannot be read; nothing of it was added.
        """
        stored = reader.episode(episode)
        if stored.ended_us is None:
            return
        run = reader.path.name  # a folder that was renamed is forgotten by its name, too
        texts = [
            (text[:MOST_OF_A_TEXT], run, episode, position, kind)
            for position, kind, text in _texts(reader, stored)
        ]
        db.executemany("INSERT INTO texts (text, run, episode, position, kind) VALUES (?, ?, ?, ?, ?)", texts)
        facts = (episode, run, stored.task, stored.agent, stored.model)
        db.execute("INSERT OR REPLACE INTO episodes VALUES (?, ?, ?, ?, ?)", facts)


def _texts(reader: RunReader, episode: StoredEpisode) -> Iterator[tuple[int, str, str]]:
    """Yield `(position of the message, kind, text)`."""
    yield 0, "task", episode.task
    turn = 0
    for position, message in enumerate(conversation(reader, episode)[0]):
        if message.role != "tool":
            turn = position  # a result is on the page below the turn that called
        if message.content:
            yield turn, {"tool": "result"}.get(message.role, message.role), message.content
        if message.reasoning:
            yield turn, "reasoning", message.reasoning
        for call in message.tool_calls:
            arguments = json.dumps(call.function.arguments, ensure_ascii=False)
            yield turn, "call", f"{call.function.name} {arguments}"
