"""Store the frames of a run: first in the journal, then in `recordings.db`.

When `store` or `append_unparsed` returns, a frame is in the journal and survives a killed process. It reaches
the database a tenth of a second later at most, in a commit of many. Reads through this class see all of them.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio

from mcp_bench.recorder.errors import StorageError
from mcp_bench.recorder.frames import jsonrpc
from mcp_bench.recorder.frames.body import Body, LargeBody, digest, stored_body
from mcp_bench.recorder.frames.large_frame import parse_large, read_frame
from mcp_bench.recorder.records import Direction, now_us
from mcp_bench.recorder.run_settings import Durability
from mcp_bench.recorder.store import schema
from mcp_bench.recorder.store.call_tracker import CallTracker
from mcp_bench.recorder.store.database import Writer
from mcp_bench.recorder.store.frame_batch import Batch
from mcp_bench.recorder.store.journal import Journal, RanEntry, encode_frame
from mcp_bench.recorder.store.keys import key_for, refuse_other_key
from mcp_bench.recorder.store.observers import Observers, Transport
from mcp_bench.recorder.store.signatures import NO_LINK, body_value, run_is_sealed, signer_of

EpisodeOf = Callable[[jsonrpc.Frame], str | None]
"""Returns the episode that a frame belongs to, or None for frames outside any episode."""

COMMIT_FRAMES, COMMIT_BYTES = 64, 1 << 20
"""With this many frames or bytes pending, the next caller to store a frame commits them."""
COMMIT_SECONDS = 0.1
"""Otherwise a thread commits them after this time."""


@dataclass(slots=True)
class _Pending:
    """A frame that is in the journal and has no row yet. `frame` is None until it is parsed."""

    number: int
    episode: str | None
    connection: int
    direction: Direction
    stored_us: int
    body: Body
    digest: bytes
    """SHA-256 of the body."""
    frame: jsonrpc.Frame | None


class FrameLog:
    """The frames of one run, in order, and the tool calls in them. Safe to use from several threads.

    Every method may raise StorageError; everything stored before stays intact.
    """

    def __init__(self, path: Path) -> None:
        """Open or create the database at `path`, and commit what an earlier writer left in its journal.

        Raises:
            OtherKeyError: the database was recorded with another key than this home's.
        """
        self.path = path
        self.key = key_for(path.parent)
        self.writer = Writer(path, schema.recordings, lambda db: signer_of(db, self.key))
        self.signer = self.writer.signer
        self.observers = Observers()
        self._lock = threading.RLock()
        """Guards all attributes below. Lock order: the writer's lock first, then this one."""
        self._unparsed: deque[_Pending] = deque()
        self._parsed: list[tuple[Direction, Body, jsonrpc.Frame]] = []
        """Frames from `append_unparsed` that any thread has parsed since the last `parse_pending`."""
        self._batch = Batch(self.signer)
        self._failure: StorageError | None = None
        self._full = False
        self._syncs_requested = self._syncs_done = 0
        self._syncing = anyio.Lock()
        self._due, self._closing = threading.Event(), threading.Event()
        self._committer: threading.Thread | None = None
        with ExitStack() as undo:
            undo.callback(self.writer.close)
            with self.writer.reading() as db:
                refuse_other_key(db, path, self.key)
                last = db.execute("SELECT id, link FROM frames ORDER BY id DESC LIMIT 1").fetchone()
                (last_call,) = db.execute("SELECT coalesce(max(id), 0) FROM calls").fetchone()
            self._last_frame: int = last[0] if last else 0
            self._last_link: bytes = last[1] if last else NO_LINK
            self.calls = CallTracker(last_call, self.signer, self.observers)
            self._journal = Journal(path.parent, self.key.secret)
            undo.callback(self._journal.close)
            self._recover()
            undo.pop_all()

    def close(self) -> None:
        """Commit everything and close. Frames that cannot be committed stay in the journal."""
        self._closing.set()
        self._due.set()
        if self._committer is not None:
            self._committer.join()
        try:
            self.flush()
        finally:
            self._journal.close()
            self.writer.close()

    def set_durability(self, durability: Durability) -> None:
        """Choose what later frames survive."""
        with self._lock:
            self._full = durability == "full"
        self.writer.set_durability(durability)

    def continue_after(self, frame: int, link: bytes, call: int) -> None:
        """Number later frames and calls after rows that the caller has added to the database."""
        with self._lock:
            self._last_frame, self._last_link, self.calls.last = frame, link, call

    # Frames --------------------------------------------------------------------------------------

    @property
    def last(self) -> int:
        """The number of the newest frame; 0 without frames."""
        with self._lock:
            return self._last_frame

    async def store(
        self, episode: str | EpisodeOf | None, connection: int, direction: Direction, bodies: Sequence[Body]
    ) -> list[jsonrpc.Frame]:
        """Store frames and return them parsed, once they are safe.

        Args:
            episode: the episode; or a function that returns it for each frame, called in order; or None.
                A frame outside any episode (the handshake of an interactive session) opens no call.
            connection: distinguishes the connections of one episode.
            direction: who sent the frames.
            bodies: the exact bytes, line terminators included.
        """
        parsed = [(body, await read_frame(body)) for body in bodies]
        with self._lock:
            self._append(
                connection,
                direction,
                [(episode(frame) if callable(episode) else episode, body, frame) for body, frame in parsed],
            )
            self._parse()
        if any(isinstance(body, LargeBody) for body in bodies):
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self.flush)
        elif self._full:
            await self._sync()
        else:
            self._commit_if_much()
        return [frame for _, frame in parsed]

    def append_unparsed(
        self, episode: str, connection: int, direction: Direction, bodies: Sequence[Body]
    ) -> None:
        """Store frames without parsing them, so that they can be forwarded at once.

        Call `parse_pending` afterwards.
        """
        with self._lock:
            self._append(connection, direction, [(episode, body, None) for body in bodies])
            if self._full:
                self._journal.sync()
        if any(isinstance(body, LargeBody) for body in bodies):
            self.flush()

    def parse_pending(self) -> list[tuple[Direction, Body, jsonrpc.Frame]]:
        """Return the frames of `append_unparsed`, of all threads, that this method has not returned yet."""
        with self._lock:
            self._parse()
            parsed, self._parsed = self._parsed, []
        self._commit_if_much()
        return parsed

    def store_frame(
        self, episode: str | None, connection: int, direction: Direction, body: Body
    ) -> jsonrpc.Frame:
        """Store a frame and commit it at once."""
        frame = parse_large(body) if isinstance(body, LargeBody) else jsonrpc.parse(body)
        with self._lock:
            self._append(connection, direction, [(episode, body, frame)])
        self.flush()
        return frame

    def _append(
        self,
        connection: int,
        direction: Direction,
        frames: Sequence[tuple[str | None, Body, jsonrpc.Frame | None]],
    ) -> None:
        """Number frames and write them to the journal."""
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        now, number, secret = now_us(), self._last_frame, self.key.secret
        pending, entries = [], []
        for episode, body, frame in frames:
            number += 1
            hashed = digest(body)
            if isinstance(body, bytes):
                entries.append(
                    encode_frame(secret, number, episode, connection, direction, now, body, hashed)
                )
            pending.append(_Pending(number, episode, connection, direction, now, body, hashed, frame))
        if entries:
            self._journal.append(entries)
        self._unparsed += pending
        self._last_frame = number
        if not self._due.is_set():
            self._due.set()
            if self._committer is None:
                self._committer = threading.Thread(target=self._commit_in_time, daemon=True)
                self._committer.start()

    def _parse(self) -> None:
        while self._unparsed:
            item = self._unparsed.popleft()
            body, frame = item.body, item.frame
            if frame is None:
                frame = parse_large(body) if isinstance(body, LargeBody) else jsonrpc.parse(body)
                self._parsed.append((item.direction, body, frame))
            self._add_row(item, frame)

    def _add_row(self, item: _Pending, frame: jsonrpc.Frame) -> None:
        number, episode, body, now = item.number, item.episode, item.body, item.stored_us
        stored = b"" if isinstance(body, LargeBody) else stored_body(body)
        row = (number, episode, item.connection, item.direction, now, frame.kind, frame.method, frame.rpc_id)
        tagged = self.signer.tag("frames", (*row, body_value(item.digest, is_text=isinstance(stored, str))))
        self._last_link = self.signer.link(self._last_link, tagged)
        if isinstance(body, LargeBody):
            self._batch.large.append(((*row, tagged, self._last_link, stored), body))
        else:
            self._batch.frames.append((*row, tagged, self._last_link, stored))
            self._batch.size += len(body)
        if self.observers:
            self.observers.notify("frame_added", episode, item.connection, frame, body)
        if episode is None:
            return
        for message in frame.items or (frame,):
            self.calls.follow((episode, item.connection), item.direction, message, number, now, body)

    # Connections, calls and agents ---------------------------------------------------------------

    @property
    def calls_made(self) -> int:
        """Tool calls recorded so far, open ones included."""
        return self.calls.last

    def connected(
        self, episode: str | None, connection: int, transport: Transport, session: str | None
    ) -> None:
        """Report a new connection to observers, before its frames. Nothing is stored."""
        self.observers.notify("connected", episode, connection, transport, session)

    def mark_executed(self, episode: str, connection: int, rpc_id: int | str | float | None) -> bool:
        """Number the call that the server starts to run now; return whether the episode has such a call."""
        with self._lock:
            call = self.calls.run((episode, connection), rpc_id)
            if call is None or call.execution is None:
                return False
            self._journal.defer(RanEntry(episode, connection, call.rpc_id, call.execution))
            return True

    def close_connection(self, episode: str, connection: int, *, cancelled: bool = False) -> None:
        """Settle the calls of a connection that got no response: see `CallTracker.abandon`."""
        with self._lock:
            self._parse()
            self.calls.abandon((episode, connection), now_us(), cancelled=cancelled)
        self.flush()

    def abandon_calls(self, episode: str) -> None:
        """Settle the open calls of an episode that ends, with the next commit."""
        with self._lock:
            self._parse()
            self.calls.end(episode, now_us())

    def identify(self, episode: str, agent: str, version: str) -> None:
        """Store the name of an episode's agent, with the next commit."""
        with self._lock:
            self._batch.agents.append((agent, version, episode))

    # Commits -------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Commit every stored frame. After an error they stay in the journal, for the next commit."""
        with self.writer.lock:
            with self._lock:
                self._parse()
                batch, self._batch = self._batch, Batch(self.signer)
                batch.calls.update(self.calls.take_rows())
                if not batch:
                    self._journal.clear_all()
                    return
                self._journal.switch()
            try:
                with self.writer.transaction() as db:
                    batch.write(db)
            except BaseException:
                with self._lock:
                    batch.prepend_to(self._batch)
                raise
            with self._lock:
                self._journal.clear_other()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Yield the database with every stored frame in it."""
        with self.writer.lock:
            self.flush()
            with self.writer.reading() as db:
                yield db

    @contextmanager
    def committing(self) -> Iterator[sqlite3.Connection]:
        """Yield the database with every stored frame in it; commit what the caller changes."""
        with self.writer.lock:
            self.flush()
            with self.writer.transaction() as db:
                yield db

    def _commit_if_much(self) -> None:
        if len(self._batch.frames) >= COMMIT_FRAMES or self._batch.size >= COMMIT_BYTES:
            self.flush()

    def _commit_in_time(self) -> None:
        """Commit pending frames every `COMMIT_SECONDS`; runs in a thread."""
        while not self._closing.is_set():
            self._due.wait()
            self._closing.wait(COMMIT_SECONDS)
            self._due.clear()
            try:
                self.flush()
            except StorageError as error:  # the next caller gets it; `close` tries once more
                self._failure = error

    async def _sync(self) -> None:
        """Return when the journal survives a power cut. Concurrent callers share one sync."""
        self._syncs_requested += 1
        mine = self._syncs_requested
        with anyio.CancelScope(shield=True):
            async with self._syncing:
                if self._syncs_done < mine:
                    requested = self._syncs_requested
                    await anyio.to_thread.run_sync(self._journal.sync)
                    self._syncs_done = requested

    def _recover(self) -> None:
        """Commit what an earlier writer left in the journal."""
        if not (entries := self._journal.entries()):
            return
        with self.writer.reading() as db:
            if run_is_sealed(db):
                return self._journal.clear_all()  # put here later: a run is sealed after its last frame
            self.calls.load(db)
        for entry in entries:
            if isinstance(entry, RanEntry):
                self.calls.run((entry.episode, entry.connection), json.loads(entry.rpc_id), entry.execution)
            elif entry.number > self._last_frame:
                self._last_frame = entry.number
                e, hashed = entry, digest(entry.body)
                self._unparsed.append(
                    _Pending(
                        e.number, e.episode, e.connection, e.direction, e.stored_us, e.body, hashed, None
                    )
                )
                self._parse()
        self._parsed.clear()
        self.flush()
        self._journal.clear_all()
