"""The one connection that writes a database, and how commits are shared.

A commit costs about as much as storing five frames, so tasks that have something to store in the
same turn of the event loop share one: the first of them waits a turn, then commits for all. When
nobody else is there, that is a commit at once, without a thread in between. Where a commit may
take long (a sync to the disk for every one, a frame of many megabytes), it runs in a thread, and
what comes meanwhile shares the next.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, TypeAlias

import anyio
from anyio.lowlevel import cancel_shielded_checkpoint
from sqlite_utils import Migrations

from mcp_bench.recorder.database import close_writer, open_writer
from mcp_bench.recorder.errors import database_error

Durability = Literal["normal", "full"]
"""What outlives what: `normal` a killed process, `full` a power cut, too."""

Step: TypeAlias = tuple[str, tuple[object, ...]] | Callable[[sqlite3.Connection], None]


class Batch:
    """Steps that are committed together. For its writer's eyes only."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.slow = False
        self.led = False
        self.taken = False
        self.finished = False
        self.error: BaseException | None = None
        self.done: anyio.Event | None = None


class Writer:
    """Commits what it is given, in order. Every method may be called from any thread, `commit` from
    the event loop."""

    def __init__(self, path: Path, migrations: Migrations) -> None:
        """Open or create the database at `path`.

        Raises:
            StorageError: it cannot be written, is damaged, or comes from a later version.
        """
        self.path = path
        self.connection = open_writer(path, migrations)
        self._full = False
        self._queue = threading.Lock()
        self._writing = threading.RLock()
        self._batch = self._last = Batch()
        self._threads = anyio.Lock()

    def set_durability(self, durability: Durability) -> None:
        """Choose what commits outlive, from the next one on."""
        with self._writing:
            self._full = durability == "full"
            self.connection.execute(f"PRAGMA synchronous = {'FULL' if self._full else 'NORMAL'}")

    def close(self) -> None:
        """Commit what is queued, and close.

        Raises:
            StorageError: it could not be committed; it is closed all the same.
        """
        with self._writing:
            try:
                self.flush()
            finally:
                close_writer(self.connection)

    def add(self, *steps: Step, slow: bool = False) -> Batch:
        """Queue steps for one commit, and say for which; `slow` ones keep the event loop free while
        they run."""
        with self._queue:
            self._batch.steps += steps
            self._batch.slow |= slow
            return self._batch

    async def commit(self, batch: Batch | None = None) -> None:
        """Return when `batch` is committed; without one, when what was queued last is.

        Raises:
            StorageError: it could not be; nothing of the batch is stored, everything before it is.
        """
        if batch is None:
            batch = self._batch if self._batch.steps else self._last  # which may be under way
        if batch.led and not batch.finished:
            batch.done = batch.done or anyio.Event()
            await batch.done.wait()
        elif batch.steps:
            await self._lead(batch)
        if batch.steps and not batch.finished:  # who led was torn away
            self._flush(batch)
        if batch.error is not None:
            raise batch.error

    async def _lead(self, batch: Batch) -> None:
        batch.led = True
        try:
            await cancel_shielded_checkpoint()  # whoever runs in this turn joins
            if self._full or batch.slow:
                with anyio.CancelScope(shield=True):
                    async with self._threads:  # meanwhile the next batch fills
                        await anyio.to_thread.run_sync(self._flush, batch)
            else:
                self._flush(batch)
        finally:
            if batch.done is not None:
                batch.done.set()

    def flush(self) -> None:
        """Commit everything queued, now.

        Raises:
            StorageError: as for `commit`.
        """
        batch = self._batch
        self._flush(batch)
        if batch.error is not None:
            raise batch.error

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Commit what is queued and then what is done inside, each as one.

        Raises:
            StorageError: SQLite failed; what was done inside is rolled back.
        """
        with self._writing:
            self.flush()
            with self._atomic():
                yield self.connection

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Give the connection to read from, with everything queued before in it.

        Raises:
            StorageError: SQLite failed.
        """
        with self._writing:
            self.flush()
            try:
                yield self.connection
            except sqlite3.Error as error:
                raise database_error(self.path, error) from error

    def _flush(self, batch: Batch) -> None:
        with self._writing:
            with self._queue:
                if batch.taken or not batch.steps:
                    return
                batch.taken = True
                self._last = batch
                if batch is self._batch:
                    self._batch = Batch()
            try:
                with self._atomic():
                    for step in batch.steps:
                        if isinstance(step, tuple):
                            self.connection.execute(*step)
                        else:
                            step(self.connection)
            except BaseException as error:  # told to everyone who waits for this batch
                batch.error = error
            batch.finished = True
            batch.steps = []

    @contextlib.contextmanager
    def _atomic(self) -> Iterator[None]:
        try:
            self.connection.execute("BEGIN IMMEDIATE")
            yield
            self.connection.execute("COMMIT")
        except BaseException as error:
            with contextlib.suppress(sqlite3.Error):  # SQLite has rolled back some by itself
                self.connection.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error):
                raise database_error(self.path, error) from error
            raise
