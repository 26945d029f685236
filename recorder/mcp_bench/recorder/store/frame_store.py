"""The frames of a run and the calls they carry, from the wire into `recordings.db`.

What an agent sees is stored first: a frame is in the journal when `keep` or `store` returns, and
outlives a killed process from then on. It reaches the database with many others in one commit, a
tenth of a second later at most; what is read through a Recording is complete.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from sqlite3 import Connection

import anyio

from mcp_bench.recorder.errors import StorageError
from mcp_bench.recorder.frames import jsonrpc
from mcp_bench.recorder.frames.body import Body, LargeBody, digest
from mcp_bench.recorder.frames.large_frame import parse_large, read_frame
from mcp_bench.recorder.records import Direction, now_us
from mcp_bench.recorder.store import episode_rows, schema
from mcp_bench.recorder.store.batch import Batch, store_large
from mcp_bench.recorder.store.journal import FrameEntry, Journal, RanEntry
from mcp_bench.recorder.store.keys import key_for, refuse_other_key
from mcp_bench.recorder.store.observers import CallEnd, CallStart, Observers
from mcp_bench.recorder.store.open_calls import Call, OpenCalls
from mcp_bench.recorder.store.signatures import NO_LINK, body_value, link, tag
from mcp_bench.recorder.store.writer import Durability, Writer

EpisodeOf = Callable[[jsonrpc.Frame], str | None]
"""Says which episode a frame belongs to; None: it is stored outside any."""

COMMIT_FRAMES = 64
COMMIT_BYTES = 1 << 20
"""As soon as so much waits, it is committed by whoever stores the next frame."""
COMMIT_SECONDS = 0.1
"""Otherwise it is committed after this time, in a thread."""


@dataclass(slots=True)
class _Kept:
    """A frame that is in the journal and not looked at yet, unless there is a `frame`."""

    number: int
    episode: str | None
    connection: int
    direction: Direction
    stored_us: int
    body: Body
    digest: bytes
    """SHA-256 of the body."""
    frame: jsonrpc.Frame | None


class FrameStore:
    """Safe to use from several threads; every method may raise StorageError, after which everything
    stored before is intact."""

    def __init__(self, path: Path) -> None:
        """Open or create the database at `path`; what an earlier writer left in the journal beside it is
        brought in.

        Raises:
            OtherKeyError: it was recorded with another key than this home's.
        """
        self.path = path
        self.observers = Observers()
        self.key = key_for(path.parent)
        self.writer = Writer(path, schema.recordings, self.key)
        self._lock = threading.RLock()
        """Guards all below. Whoever needs the writer's lock, too, takes that one first."""
        self._kept: deque[_Kept] = deque()
        self._digested: list[tuple[Direction, Body, jsonrpc.Frame]] = []
        """What was kept and has been looked at since, whoever did it, for the next `digest`."""
        self._waiting = Batch(self.key)
        self._failure: StorageError | None = None
        self._full = False
        self._syncs_asked = self._syncs_done = 0
        self._syncing = anyio.Lock()
        self._due, self._closing = threading.Event(), threading.Event()
        self._committer: threading.Thread | None = None
        try:
            with self.writer.reading() as db:
                refuse_other_key(db, path, self.key)
                last = db.execute("SELECT id, link FROM frames ORDER BY id DESC LIMIT 1").fetchone()
                (last_call,) = db.execute("SELECT coalesce(max(id), 0) FROM calls").fetchone()
            self._last_frame: int = last[0] if last else 0
            self._last_link: bytes = last[1] if last else NO_LINK
            self._calls = OpenCalls(last_call)
            self._journal = Journal(path.parent, self.key.secret)
        except BaseException:
            self.writer.close()
            raise
        self._recover()

    def close(self) -> None:
        """Commit what waits, and close. Where it cannot be committed, it stays in the journal."""
        self._closing.set()
        self._due.set()
        if self._committer is not None:
            self._committer.join()
        try:
            self.flush()
        finally:
            self._journal.close()
            self.writer.close()
            self.observers.tell("close")

    def set_durability(self, durability: Durability) -> None:
        """Choose what is outlived by what is stored from now on."""
        with self._lock:
            self._full = durability == "full"
        self.writer.set_durability(durability)

    # Frames --------------------------------------------------------------------------------------

    async def store(
        self, episode: str | EpisodeOf | None, connection: int, direction: Direction, bodies: Sequence[Body]
    ) -> list[jsonrpc.Frame]:
        """Store frames, terminators included, and return what they say when they are safe.

        `direction` is who sent them; `connection` tells the wires of one episode apart. Where the episode
        depends on the frame, `episode` is asked for each, when its turn has come. A frame without an
        episode (the handshake of a hand session) opens no call.
        """
        parsed = [(body, await read_frame(body)) for body in bodies]
        with self._lock:
            self._keep(
                connection,
                direction,
                [(episode(frame) if callable(episode) else episode, body, frame) for body, frame in parsed],
            )
            self._digest()
        if any(isinstance(body, LargeBody) for body in bodies):
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self.flush)
        elif self._full:
            await self._sync()
        else:
            self._commit_if_much()
        return [frame for _, frame in parsed]

    def keep(self, episode: str, connection: int, direction: Direction, bodies: Sequence[Body]) -> None:
        """Store frames without looking at them, so that they can pass at once. `digest` comes after it."""
        with self._lock:
            self._keep(connection, direction, [(episode, body, None) for body in bodies])
            if self._full:
                self._journal.sync()
        if any(isinstance(body, LargeBody) for body in bodies):
            self.flush()

    def digest(self) -> list[tuple[Direction, Body, jsonrpc.Frame]]:
        """Look at what was kept, by any thread; return all of it since the last time, in its order."""
        with self._lock:
            self._digest()
            digested, self._digested = self._digested, []
        self._commit_if_much()
        return digested

    def store_frame(
        self, episode: str | None, connection: int, direction: Direction, body: Body
    ) -> jsonrpc.Frame:
        """Store a frame and commit it, at once."""
        frame = parse_large(body) if isinstance(body, LargeBody) else jsonrpc.parse(body)
        with self._lock:
            self._keep(connection, direction, [(episode, body, frame)])
        self.flush()
        return frame

    def _keep(
        self,
        connection: int,
        direction: Direction,
        frames: Sequence[tuple[str | None, Body, jsonrpc.Frame | None]],
    ) -> None:
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        now = now_us()
        kept = [
            _Kept(number, episode, connection, direction, now, body, digest(body), frame)
            for number, (episode, body, frame) in enumerate(frames, self._last_frame + 1)
        ]
        entries = [
            (FrameEntry(k.number, k.episode, connection, direction, now, k.body), k.digest)
            for k in kept
            if isinstance(k.body, bytes)
        ]
        if entries:
            self._journal.append(*zip(*entries, strict=True))
        self._kept += kept
        self._last_frame += len(kept)
        if not self._due.is_set():
            self._due.set()
            if self._committer is None:
                self._committer = threading.Thread(target=self._commit_in_time, daemon=True)
                self._committer.start()

    def _digest(self) -> None:
        while self._kept:
            kept = self._kept.popleft()
            body, frame = kept.body, kept.frame
            if frame is None:
                frame = parse_large(body) if isinstance(body, LargeBody) else jsonrpc.parse(body)
                self._digested.append((kept.direction, body, frame))
            self._add(kept, frame)

    def _add(self, kept: _Kept, frame: jsonrpc.Frame) -> None:
        number, episode, body, now = kept.number, kept.episode, kept.body, kept.stored_us
        stored = b"" if isinstance(body, LargeBody) else episode_rows.stored_body(body)
        row = (number, episode, kept.connection, kept.direction, now, frame.kind, frame.method, frame.rpc_id)
        tagged = tag(self.key, "frames", (*row, body_value(kept.digest, is_text=isinstance(stored, str))))
        self._last_link = link(self.key, self._last_link, tagged)
        if isinstance(body, LargeBody):
            self._waiting.large.append(store_large((*row, tagged, self._last_link), body))
        else:
            self._waiting.frames.append((*row, tagged, self._last_link, stored))
            self._waiting.size += len(body)
        if self.observers:
            self.observers.tell("frame_added", episode, kept.connection, frame, body)
        if episode is None:
            return
        for message in frame.items or (frame,):
            wire_ = (episode, kept.connection)
            call = self._calls.follow(wire_, kept.direction, message, number, now)
            if call is not None:
                self._waiting.calls[call.number] = call
                if self.observers:
                    self._tell(call, body)

    def _tell(self, call: Call, body: Body | None) -> None:
        if call.outcome is None or call.ended_us is None:
            start = CallStart(
                call.number,
                call.episode,
                call.connection,
                call.rpc_id,
                call.tool,
                call.arguments,
                call.started_us,
                body or b"",
            )
            self.observers.tell("call_opened", start)
        else:
            self.observers.tell(
                "call_settled", CallEnd(call.number, call.rpc_id, call.outcome, call.ended_us, body)
            )

    # Calls ---------------------------------------------------------------------------------------

    def mark_executed(self, episode: str, connection: int, rpc_id: int | str | float | None) -> bool:
        """Number the call that the server starts to run now; return whether the episode has such a call."""
        with self._lock:
            call = self._calls.run((episode, connection), rpc_id)
            if call is None or call.execution is None:
                return False
            self._journal.note(RanEntry(episode, connection, call.rpc_id, call.execution))
            self._waiting.calls[call.number] = call
            return True

    def close_connection(self, episode: str, connection: int, *, cancelled: bool = False) -> None:
        """Settle the calls that got no response: `cancelled` where the client gave up on them (all of them,
        if `cancelled` says so), else `transport_error`."""
        with self._lock:
            self._digest()
            self._abandoned(self._calls.abandon((episode, connection), now_us(), cancelled=cancelled))
        self.flush()

    def _abandoned(self, calls: Sequence[Call]) -> None:
        for call in calls:
            self._waiting.calls[call.number] = call
            if self.observers:
                self._tell(call, None)

    # Commits -------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Commit everything that was kept. On an error it stays in the journal, and waits for the next."""
        with self.writer.lock:
            with self._lock:
                self._digest()
                batch, self._waiting = self._waiting, Batch(self.key)
                batch.seal()
                if not batch:
                    self._journal.clear_all()
                    return
                self._journal.turn()
            try:
                with self.writer.transaction() as db:
                    batch.write(db)
            except BaseException:
                with self._lock:
                    batch.put_before(self._waiting)
                raise
            with self._lock:
                self._journal.clear()

    def _commit_if_much(self) -> None:
        if len(self._waiting.frames) >= COMMIT_FRAMES or self._waiting.size >= COMMIT_BYTES:
            self.flush()

    def _commit_in_time(self) -> None:
        """Run in a thread: commit what waits for too long."""
        while not self._closing.is_set():
            self._due.wait()
            self._closing.wait(COMMIT_SECONDS)
            self._due.clear()
            try:
                self.flush()
            except StorageError as error:  # told to whoever stores next; `close` tries once more
                self._failure = error

    async def _sync(self) -> None:
        """Return when what is in the journal outlives a power cut. Those who ask at once share it."""
        self._syncs_asked += 1
        mine = self._syncs_asked
        with anyio.CancelScope(shield=True):
            async with self._syncing:
                if self._syncs_done < mine:
                    asked = self._syncs_asked
                    await anyio.to_thread.run_sync(self._journal.sync)
                    self._syncs_done = asked

    def _recover(self) -> None:
        entries = self._journal.entries()
        if not entries:
            return
        with self.writer.reading() as db:
            for call in episode_rows.open_calls(db):
                self._calls.reopen(call)
        for entry in entries:
            if isinstance(entry, RanEntry):
                wire_ = (entry.episode, entry.connection)
                ran = self._calls.run(wire_, json.loads(entry.rpc_id), entry.execution)
                if ran is not None:
                    self._waiting.calls[ran.number] = ran
            elif entry.number > self._last_frame:
                self._last_frame = entry.number
                kept = _Kept(
                    entry.number, entry.episode, entry.connection, entry.direction, entry.stored_us,
                    entry.body, digest(entry.body), None,
                )  # fmt: skip
                self._kept.append(kept)
                self._digest()
        self._digested.clear()
        self.flush()
        self._journal.clear_all()

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        """Give the database to read, with everything in it that was stored before."""
        with self.writer.lock:
            self.flush()
            with self.writer.reading() as db:
                yield db

    @contextmanager
    def _committing(self) -> Iterator[Connection]:
        """Give the database to change, with everything in it that was stored before; commit."""
        with self.writer.lock:
            self.flush()
            with self.writer.transaction() as db:
                yield db
