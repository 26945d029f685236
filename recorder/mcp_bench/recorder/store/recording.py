"""What is stored of a run while it goes on: its settings, its episodes, and what they hold."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path

from mcp_bench.recorder.errors import CorruptDatabaseError, StorageError
from mcp_bench.recorder.frames import jsonrpc
from mcp_bench.recorder.records import (
    REFEREE_DIED,
    EpisodeEnd,
    EpisodeStart,
    Flag,
    FlagKind,
    RecordedCall,
    RunInfo,
    now_us,
)
from mcp_bench.recorder.store import episode_rows
from mcp_bench.recorder.store.frame_store import FrameStore
from mcp_bench.recorder.store.observers import Transport
from mcp_bench.recorder.store.signatures import seal_episode, seal_run, seal_tag, tag_rows
from mcp_bench.recorder.trajectory import Message, ToolSchema

MAX_FLAGS = 50


class Recording(FrameStore):
    """The recordings of one run."""

    def __init__(self, path: Path) -> None:
        """Open or create the database at `path`; what a writer that died left in the journal beside it
        is brought in."""
        super().__init__(path)
        self._info: RunInfo | None = None
        self._flags: Counter[tuple[str | None, FlagKind]] = Counter()

    def add_run(self, info: RunInfo) -> None:
        row = info.model_dump()
        row["settings"] = jsonrpc.dumps(row["settings"])
        row["plan"] = jsonrpc.dumps(row["plan"])
        row["key"] = self.key.id
        self._insert("runs", row)

    def info(self) -> RunInfo:
        """Return the run that this database belongs to."""
        if self._info is not None:
            return self._info
        with self._reading() as db:
            cursor = db.execute("SELECT * FROM runs ORDER BY created_us LIMIT 1")
            found = cursor.fetchone()
        if found is None:
            raise CorruptDatabaseError(f"{self.path} holds no run: it was never set up. Remove its folder")
        row = dict(zip([column[0] for column in cursor.description], found, strict=True))
        row |= {"settings": json.loads(row["settings"]), "plan": json.loads(row["plan"])}
        self._info = RunInfo(**{name: row[name] for name in RunInfo.model_fields})
        return self._info

    def begin_episode(self, start: EpisodeStart) -> None:
        row = start.model_dump(exclude={"tools", "probes", "source"})
        row["probes"] = jsonrpc.dumps(start.probes) if start.probes else None
        row["source"] = None if start.source is None else jsonrpc.dumps(start.source)
        row["tools"] = jsonrpc.dumps([tool.model_dump() for tool in start.tools])
        row["run"] = self.info().id
        self._insert("episodes", row)
        self.observers.tell("episode_begun", self.info(), start)

    def connected(
        self, episode: str | None, connection: int, transport: Transport, session: str | None
    ) -> None:
        """Tell observers how a connection comes in, before its frames; nothing of it is stored."""
        self.observers.tell("connected", episode, connection, transport, session)

    def recorded_calls(self, episode: str) -> list[RecordedCall]:
        """Return the calls of an episode in the order the server ran them."""
        with self._reading() as db:
            return episode_rows.recorded_calls(db, episode)

    def listed_tools(self, episode: str) -> list[ToolSchema]:
        """Return the tools that the server of an episode listed."""
        with self._reading() as db:
            return episode_rows.listed_tools(db, episode)

    def identify(self, episode: str, agent: str, version: str) -> None:
        """Name the agent of an episode, as it told, with the next commit."""
        with self._lock:
            self._waiting.agents.append((agent, version, episode))

    def flag(self, episode: str | None, kind: FlagKind, detail: str) -> None:
        """Store that something was tried, and refused; `detail` says by whom, and where.

        `episode` is None, too, where the one that it belongs to has ended: that is sealed. Of one kind, an
        episode keeps the first `MAX_FLAGS`: whoever tries on and on does not fill the disk.
        """
        with self._lock:
            self._flags[episode, kind] += 1
            if self._flags[episode, kind] > MAX_FLAGS:
                return
        with self._committing() as db:
            over = "SELECT 1 FROM episodes WHERE id = ? AND ended_us IS NOT NULL"
            if episode is not None and db.execute(over, [episode]).fetchone():
                episode, detail = None, f"{detail} (after the end of {episode})"
            number = db.execute(
                "INSERT INTO flags (episode, time_us, kind, detail) VALUES (?, ?, ?, ?)",
                (episode, now_us(), kind, detail),
            ).lastrowid
            tag_rows(db, self.key, "flags", "id = ?", number)

    def flags(self, episode: str | None) -> list[Flag]:
        """Return what was flagged of an episode, or of none, oldest first."""
        with self._reading() as db:
            return episode_rows.read_flags(db, episode)

    def end_episode(self, episode: str, end: EpisodeEnd, messages: Sequence[Message]) -> None:
        """Store how an episode ended and its conversation, and seal both. Its connections count as closed.

        An episode that began without tools gets those that its server listed.
        """
        row = end.model_dump()
        row["usage"] = end.usage.model_dump_json(exclude_none=True) if end.usage else None
        columns = ", ".join(f"{name} = :{name}" for name in row)
        with self._lock:
            self._digest()
            self._abandoned(self._calls.end(episode, now_us()))
        with self._committing() as db:
            changed = db.execute(
                f"UPDATE episodes SET {columns} WHERE id = :id AND ended_us IS NULL",  # noqa: S608
                {**row, "id": episode},
            ).rowcount
            if not changed:
                raise StorageError(f"{self.path}: there is no open episode {episode} to end")
            episode_rows.write_messages(db, episode, messages)
            # an imported one has no server that could have listed any: looking for it takes long
            if db.execute(
                "SELECT 1 FROM episodes WHERE id = ? AND tools = '[]' AND source IS NULL", [episode]
            ).fetchone():
                tools = [tool.model_dump() for tool in episode_rows.listed_tools(db, episode)]
                db.execute("UPDATE episodes SET tools = ? WHERE id = ?", (jsonrpc.dumps(tools), episode))
            tag_rows(db, self.key, "messages", "episode = ?", episode)
            tag_rows(db, self.key, "episodes", "id = ?", episode)
            seal_episode(db, self.key, episode)
        self.observers.tell("episode_ended", episode, end)

    def mark_died(self, done: Collection[str]) -> list[str]:
        """Mark the valid episodes that are not done as invalid, since their referee is gone.

        Returns their ids. They stay in the file; calls without a response get `transport_error`.
        """
        with self._committing() as db:
            rows = db.execute("SELECT id FROM episodes WHERE invalid IS NULL ORDER BY id").fetchall()
            died = [episode for (episode,) in rows if episode not in done]
            for episode in died:
                db.execute("UPDATE episodes SET invalid = ? WHERE id = ?", (REFEREE_DIED, episode))
                db.execute(
                    "UPDATE calls SET outcome = 'transport_error' WHERE episode = ? AND outcome IS NULL",
                    [episode],
                )
                tag_rows(db, self.key, "calls", "episode = ?", episode)
                tag_rows(db, self.key, "episodes", "id = ?", episode)
                seal_episode(db, self.key, episode)
        return died

    def seal(self) -> bytes | None:
        """Seal the run as it is, when it is closed; return the seal's tag."""
        with self._committing() as db:
            seal_run(db, self.key)
            return seal_tag(db, self.info().id)

    def unseal(self) -> None:
        """Take the seal of the run away: more will come."""
        with self._committing() as db:
            db.execute("DELETE FROM seals WHERE subject = ?", [self.info().id])

    def sealed(self, episode: str) -> bytes | None:
        """Return the tag of an episode's seal, once it has ended."""
        with self._reading() as db:
            return seal_tag(db, episode)

    def ended(self) -> set[str]:
        """Return the ids of the episodes that ended validly."""
        with self._reading() as db:
            rows = db.execute("SELECT id FROM episodes WHERE ended_us IS NOT NULL AND invalid IS NULL")
            return {episode for (episode,) in rows}

    @property
    def calls_made(self) -> int:
        """Tool calls in the file, those under way included."""
        return self._calls.last

    def told_costs(self) -> tuple[float, int]:
        """Return what all attempts cost together, in US dollars as their agents told it, and how many
        attempts that ended told nothing of it."""
        with self._reading() as db:
            (spent, untold) = db.execute(
                "SELECT coalesce(sum(cost), 0.0), count(*) - count(cost) FROM"
                " (SELECT json_extract(usage, '$.cost_usd') AS cost FROM episodes WHERE ended_us IS NOT NULL)"
            ).fetchone()
        return float(spent), int(untold)

    def attempts(self) -> list[tuple[str, str, int, int, int]]:
        """Return `(episode, task, seed, repeat, attempt)` of every attempt, oldest first."""
        with self._reading() as db:
            rows = db.execute("SELECT id, task, seed, repeat, attempt FROM episodes ORDER BY id")
            return rows.fetchall()

    def _insert(self, table: str, row: dict[str, object]) -> None:
        columns, values = ", ".join(row), ", ".join("?" for _ in row)
        with self._committing() as db:
            db.execute(f"INSERT INTO {table} ({columns}) VALUES ({values})", tuple(row.values()))  # noqa: S608
            tag_rows(db, self.key, table, "id = ?", row["id"])
