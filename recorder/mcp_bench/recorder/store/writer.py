"""The one connection that writes a database."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, TypeAlias

import anyio

from mcp_bench.recorder.errors import database_error
from mcp_bench.recorder.sqlite_tools import Migrations
from mcp_bench.recorder.store.database import close_writer, open_writer
from mcp_bench.recorder.store.keys import Key

Durability = Literal["normal", "full"]
"""What outlives what: `normal` a killed process, `full` a power cut, too."""

Step: TypeAlias = tuple[str, tuple[object, ...]] | Callable[[sqlite3.Connection], None]


class Writer:
    """May be used from any thread: one at a time is let in."""

    def __init__(self, path: Path, migrations: Migrations, key: Key) -> None:
        """Open or create the database at `path`, whose rows are tagged with `key`.

        Raises:
            StorageError: it cannot be written, is damaged, or comes from a later version.
        """
        self.path = path
        self.key = key
        self.connection = open_writer(path, migrations)
        self.lock = threading.RLock()

    def set_durability(self, durability: Durability) -> None:
        """Choose what commits outlive, from the next one on."""
        with self.lock:
            self.connection.execute(f"PRAGMA synchronous = {'FULL' if durability == 'full' else 'NORMAL'}")

    def close(self) -> None:
        with self.lock:
            close_writer(self.connection)

    async def commit(self, *steps: Step, slow: bool = False) -> None:
        """Commit steps as one; `slow` ones in a thread, so that the event loop goes on.

        Raises:
            StorageError: as for `transaction`.
        """
        if not slow:
            self._commit(*steps)
            return
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._commit, *steps)

    def _commit(self, *steps: Step) -> None:
        with self.transaction() as db:
            for step in steps:
                if isinstance(step, tuple):
                    db.execute(*step)
                else:
                    step(db)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Commit what is done inside, as one.

        Raises:
            StorageError: SQLite failed; what was done inside is rolled back.
        """
        with self.lock:
            try:
                self.connection.execute("BEGIN IMMEDIATE")
                yield self.connection
                self.connection.execute("COMMIT")
            except BaseException as error:
                with contextlib.suppress(sqlite3.Error):  # SQLite has rolled back some by itself
                    self.connection.execute("ROLLBACK")
                if isinstance(error, sqlite3.Error):
                    raise database_error(self.path, error) from error
                raise

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Give the connection to read from.

        Raises:
            StorageError: SQLite failed.
        """
        with self.lock:
            try:
                yield self.connection
            except sqlite3.Error as error:
                raise database_error(self.path, error) from error
