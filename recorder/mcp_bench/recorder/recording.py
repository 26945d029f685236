"""What is stored of a run while it goes on: the tables of `recordings.db`.

What an agent sees is stored first: a frame is queued by `add_frame`, and on disk when `commit`
returns. A commit outlives a killed process. Plain sqlite3, since this is the hot path.
"""

from __future__ import annotations

import json
import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mcp_bench.recorder import conversation, schema, wire
from mcp_bench.recorder.body import Body, LargeBody
from mcp_bench.recorder.errors import CorruptDatabaseError, StorageError
from mcp_bench.recorder.observer import CallEnd, CallStart, Observers, Transport
from mcp_bench.recorder.outline import parse_large, read_frame
from mcp_bench.recorder.records import (
    REFEREE_DIED,
    EpisodeEnd,
    EpisodeStart,
    Outcome,
    RecordedCall,
    RunInfo,
    now_us,
)
from mcp_bench.recorder.trajectory import Message, ToolSchema
from mcp_bench.recorder.writer import Step, Writer

Direction = Literal["client", "server"]
EpisodeOf = Callable[[wire.Frame], str | None]
"""Says which episode a frame belongs to; None: it is stored outside any."""
_log = logging.getLogger(__name__)

_INSERT_FRAME = (
    "INSERT INTO frames (id, episode, connection, direction, stored_us, kind, method, rpc_id, body)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_OPEN_CALL = (
    "INSERT INTO calls (id, episode, connection, rpc_id, tool, arguments, started_us, request_frame)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
_SETTLE_CALL = "UPDATE calls SET execution = ?, outcome = ?, ended_us = ?, response_frame = ? WHERE id = ?"


@dataclass(slots=True)
class _OpenCall:
    row: int
    rpc_id: str
    execution: int | None = None
    cancelled: bool = False


class Recording:
    """The recordings of one run. Safe to use from several threads; every method may raise
    StorageError, after which everything stored before is intact."""

    def __init__(self, path: Path) -> None:
        """Open or create the database at `path`."""
        self.path = path
        self.observers = Observers()
        self.writer = Writer(path, schema.recordings)
        self._lock = threading.RLock()
        self._open: dict[tuple[str, int], list[_OpenCall]] = defaultdict(list)
        self._executed: dict[str, int] = {}
        self._info: RunInfo | None = None
        with self.writer.reading() as db:
            (self._last_frame,) = db.execute("SELECT coalesce(max(id), 0) FROM frames").fetchone()
            (self._last_call,) = db.execute("SELECT coalesce(max(id), 0) FROM calls").fetchone()

    def close(self) -> None:
        try:
            self.writer.close()
        finally:
            self.observers.tell("close")

    def add_run(self, info: RunInfo) -> None:
        row = info.model_dump()
        row["settings"] = wire.dumps(row["settings"])
        row["plan"] = wire.dumps(row["plan"])
        self._insert("runs", row)

    def info(self) -> RunInfo:
        """Return the run that this database belongs to."""
        if self._info is not None:
            return self._info
        with self.writer.reading() as db:
            cursor = db.execute("SELECT * FROM runs ORDER BY created_us LIMIT 1")
            found = cursor.fetchone()
        if found is None:
            raise CorruptDatabaseError(f"{self.path} holds no run: it was never set up. Remove its folder")
        row = dict(zip([column[0] for column in cursor.description], found, strict=True))
        row |= {"settings": json.loads(row["settings"]), "plan": json.loads(row["plan"])}
        self._info = RunInfo(**row)
        return self._info

    def begin_episode(self, start: EpisodeStart) -> None:
        row = start.model_dump(exclude={"tools"})
        row["tools"] = wire.dumps([tool.model_dump() for tool in start.tools])
        row["run"] = self.info().id
        self._insert("episodes", row)
        self._executed[start.id] = 0
        self.observers.tell("episode_begun", self.info(), start)

    def connected(
        self, episode: str | None, connection: int, transport: Transport, session: str | None
    ) -> None:
        """Tell observers how a connection comes in, before its frames; nothing of it is stored."""
        self.observers.tell("connected", episode, connection, transport, session)

    async def store(
        self, episode: str | EpisodeOf | None, connection: int, direction: Direction, bodies: Sequence[Body]
    ) -> list[wire.Frame]:
        """Store frames, and return when they are on disk. Tasks that run in one turn share a commit.

        Where the episode depends on the frame, `episode` is asked for each, when its turn has come.
        """
        parsed = [(body, await read_frame(body)) for body in bodies]
        steps: list[Step] = []
        with self._lock:
            for body, frame in parsed:
                belongs_to = episode(frame) if callable(episode) else episode
                self._add(belongs_to, connection, direction, body, frame, steps)
            # as one, so that a frame is never committed without its call, or told of without the others
            batch = self.writer.add(*steps, slow=any(isinstance(body, LargeBody) for body in bodies))
        await self.writer.commit(batch)
        return [frame for _, frame in parsed]

    def add_frame(self, episode: str | None, connection: int, direction: Direction, body: Body) -> wire.Frame:
        """Queue one raw frame, terminator included, and the call that it opens or settles.

        `direction` is who sent it; `connection` tells the wires of one episode apart. A frame without
        an episode (the handshake of a hand session) opens no call.
        """
        frame = parse_large(body) if isinstance(body, LargeBody) else wire.parse(body)
        steps: list[Step] = []
        with self._lock:
            self._add(episode, connection, direction, body, frame, steps)
            self.writer.add(*steps, slow=isinstance(body, LargeBody))
        return frame

    def _add(
        self, episode: str | None, connection: int, direction: Direction, body: Body, frame: wire.Frame,
        steps: list[Step],
    ) -> None:  # fmt: skip
        now = now_us()
        self._last_frame += 1
        number = self._last_frame
        row = (number, episode, connection, direction, now, frame.kind, frame.method, frame.rpc_id)
        if isinstance(body, LargeBody):
            steps.append(conversation.large_frame(_INSERT_FRAME, row, body))
        else:
            steps.append((_INSERT_FRAME, (*row, conversation.stored_body(body))))
        if self.observers:
            self.observers.tell("frame_added", episode, connection, frame, body)
        if episode is not None:
            for message in frame.items or (frame,):
                self._follow((episode, connection), direction, message, number, now, body, steps)

    async def commit(self) -> None:
        """Return when everything queued before is on disk."""
        await self.writer.commit()

    def store_frame(
        self, episode: str | None, connection: int, direction: Direction, body: Body
    ) -> wire.Frame:
        """Add a frame and commit it, at once."""
        with self._lock:
            frame = self.add_frame(episode, connection, direction, body)
            self.writer.flush()
        return frame

    def mark_executed(self, episode: str, connection: int, rpc_id: int | str | float | None) -> bool:
        """Number the call that the server starts to run now; return whether the episode has such a call.

        The number is stored with the outcome.
        """
        with self._lock:
            waiting = [call for call in self._open.get((episode, connection), ()) if call.execution is None]
            exact = wire.id_text(rpc_id)
            call = next((c for c in waiting if c.rpc_id == exact), None) or next(
                (c for c in waiting if _same_number(c.rpc_id, rpc_id)), None
            )
            if call is None:
                _log.warning("episode %s: no open call has the id %s", episode, exact)
                return False
            call.execution = self._executed[episode] = self._executed.get(episode, 0) + 1
            return True

    def close_connection(self, episode: str, connection: int) -> None:
        """Settle the calls that got no response: `cancelled` where the client gave up on them, else
        `transport_error`."""
        with self._lock:
            self._abandon((episode, connection))
            self.writer.flush()

    def recorded_calls(self, episode: str) -> list[RecordedCall]:
        """Return the calls of an episode in the order the server ran them."""
        with self.writer.reading() as db:
            return conversation.recorded_calls(db, episode)

    def listed_tools(self, episode: str) -> list[ToolSchema]:
        """Return the tools that the server of an episode listed."""
        with self.writer.reading() as db:
            return conversation.listed_tools(db, episode)

    def identify(self, episode: str, agent: str, version: str) -> None:
        """Name the agent of an episode, as it told, with the next commit."""
        self.writer.add(
            ("UPDATE episodes SET agent = ?, agent_version = ? WHERE id = ?", (agent, version, episode))
        )

    def end_episode(self, episode: str, end: EpisodeEnd, messages: Sequence[Message]) -> None:
        """Store how an episode ended and its conversation. Its connections count as closed.

        An episode that began without tools gets those that its server listed.
        """
        row = end.model_dump()
        row["usage"] = end.usage.model_dump_json(exclude_none=True) if end.usage else None
        columns = ", ".join(f"{name} = :{name}" for name in row)
        with self._lock:
            for key in [key for key in self._open if key[0] == episode]:
                self._abandon(key)
            with self.writer.transaction() as db:
                changed = db.execute(
                    f"UPDATE episodes SET {columns} WHERE id = :id AND ended_us IS NULL",  # noqa: S608
                    {**row, "id": episode},
                ).rowcount
                if not changed:
                    raise StorageError(f"{self.path}: there is no open episode {episode} to end")
                conversation.write_messages(db, episode, messages)
                if db.execute("SELECT 1 FROM episodes WHERE id = ? AND tools = '[]'", [episode]).fetchone():
                    tools = [tool.model_dump() for tool in conversation.listed_tools(db, episode)]
                    db.execute("UPDATE episodes SET tools = ? WHERE id = ?", (wire.dumps(tools), episode))
            self._executed.pop(episode, None)
        self.observers.tell("episode_ended", episode, end)

    def mark_died(self, done: Collection[str]) -> list[str]:
        """Mark the valid episodes that are not done as invalid, since their referee is gone.

        Returns their ids. They stay in the file; calls without a response get `transport_error`.
        """
        with self.writer.transaction() as db:
            rows = db.execute("SELECT id FROM episodes WHERE invalid IS NULL ORDER BY id").fetchall()
            died = [episode for (episode,) in rows if episode not in done]
            for episode in died:
                db.execute("UPDATE episodes SET invalid = ? WHERE id = ?", (REFEREE_DIED, episode))
                db.execute(
                    "UPDATE calls SET outcome = 'transport_error' WHERE episode = ? AND outcome IS NULL",
                    [episode],
                )
        return died

    def ended(self) -> set[str]:
        """Return the ids of the episodes that ended validly."""
        with self.writer.reading() as db:
            rows = db.execute("SELECT id FROM episodes WHERE ended_us IS NOT NULL AND invalid IS NULL")
            return {episode for (episode,) in rows}

    @property
    def calls_made(self) -> int:
        """Tool calls in the file, those under way included."""
        made: int = self._last_call
        return made

    def told_costs(self) -> tuple[float, int]:
        """Return what all attempts cost together, in US dollars as their agents told it, and how many
        attempts that ended told nothing of it."""
        with self.writer.reading() as db:
            (spent, untold) = db.execute(
                "SELECT coalesce(sum(cost), 0.0), count(*) - count(cost) FROM"
                " (SELECT json_extract(usage, '$.cost_usd') AS cost FROM episodes WHERE ended_us IS NOT NULL)"
            ).fetchone()
        return float(spent), int(untold)

    def attempts(self) -> list[tuple[str, str, int, int, int]]:
        """Return `(episode, task, seed, repeat, attempt)` of every attempt, oldest first."""
        with self.writer.reading() as db:
            rows = db.execute("SELECT id, task, seed, repeat, attempt FROM episodes ORDER BY id")
            return rows.fetchall()

    def _follow(
        self, key: tuple[str, int], direction: Direction, message: wire.Frame, frame: int, now: int,
        body: Body, steps: list[Step],
    ) -> None:  # fmt: skip
        if direction == "server":
            calls = self._open.get(key, [])
            call = next((c for c in calls if c.rpc_id == message.rpc_id), None)
            if call is not None and message.outcome is not None:  # else: the answer to something else
                calls.remove(call)
                given_up = call.cancelled and message.outcome == "rpc_error"
                outcome: Outcome = "cancelled" if given_up else message.outcome
                self._settle(call, outcome, frame, now, body, steps)
        elif message.is_call and message.rpc_id is not None:
            self._last_call += 1
            arguments = message.arguments or "{}"
            row = (self._last_call, *key, message.rpc_id, message.tool, arguments, now)
            steps.append((_OPEN_CALL, (*row, frame)))
            self._open[key].append(_OpenCall(self._last_call, message.rpc_id))
            if self.observers:
                self.observers.tell("call_opened", CallStart(*row, body))
        elif message.cancels is not None:
            for call in self._open.get(key, ()):
                call.cancelled |= call.rpc_id == message.cancels

    def _abandon(self, key: tuple[str, int]) -> None:
        now, steps = now_us(), list[Step]()
        for call in self._open.pop(key, ()):
            self._settle(call, "cancelled" if call.cancelled else "transport_error", None, now, None, steps)
        self.writer.add(*steps)

    def _settle(
        self, call: _OpenCall, outcome: Outcome, frame: int | None, now: int, body: Body | None,
        steps: list[Step],
    ) -> None:  # fmt: skip
        steps.append((_SETTLE_CALL, (call.execution, outcome, now, frame, call.row)))
        if self.observers:
            self.observers.tell("call_settled", CallEnd(call.row, call.rpc_id, outcome, now, body))

    def _insert(self, table: str, row: dict[str, object]) -> None:
        step: Step = (
            f"INSERT INTO {table} ({', '.join(row)}) VALUES ({', '.join('?' for _ in row)})",  # noqa: S608
            tuple(row.values()),
        )
        self.writer.add(step)
        self.writer.flush()


def _same_number(spelled: str, value: object) -> bool:
    # a server may have read the id 1.0 as 1, or 1e0 as 1.0
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return float(spelled) == value
    except ValueError:
        return False
