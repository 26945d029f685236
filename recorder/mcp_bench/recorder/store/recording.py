"""Record one run: its frames and calls, and beside them its episodes, their messages and its flags."""

from __future__ import annotations

import json
import threading
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
from mcp_bench.recorder.store.frame_log import FrameLog
from mcp_bench.recorder.store.ledger import Position
from mcp_bench.recorder.store.signatures import (
    refuse_changed_rows,
    seal_episode,
    seal_run,
    seal_tag,
    tag_rows,
)
from mcp_bench.recorder.trajectory import Message, ToolSchema

MAX_FLAGS = 50


class Recording(FrameLog):
    """The recordings of one run, open for writing. Safe to use from several threads.

    Every method may raise StorageError; everything stored before stays intact.
    """

    def __init__(self, path: Path) -> None:
        """Open or create the database at `path`, and commit what an earlier writer left in its journal."""
        super().__init__(path)
        self._info: RunInfo | None = None
        self._began_after: dict[str, int] = {}
        """The newest frame when an episode began: its own frames follow. Only those that have not ended."""
        self._flags: Counter[tuple[str | None, FlagKind]] = Counter()
        self._flags_lock = threading.Lock()

    def close(self) -> None:
        """Commit everything and close. Frames that cannot be committed stay in the journal."""
        try:
            super().close()
        finally:
            self.observers.notify("close")

    # Run -----------------------------------------------------------------------------------------

    def add_run(self, info: RunInfo, entered: Position | None) -> None:
        """Store the run. `entered` is the ledger's entry of its beginning."""
        row = info.model_dump()
        row["settings"] = jsonrpc.dumps(row["settings"])
        row["plan"] = jsonrpc.dumps(row["plan"])
        row["key"] = self.signer.key.id
        row["format"] = self.signer.format
        row["ledger"] = None if entered is None else json.dumps(entered)
        self._insert("runs", row)

    def info(self) -> RunInfo:
        """Return the run that this database belongs to."""
        if self._info is not None:
            return self._info
        with self.reading() as db:
            cursor = db.execute("SELECT * FROM runs ORDER BY created_us LIMIT 1")
            found = cursor.fetchone()
        if found is None:
            raise CorruptDatabaseError(episode_rows.no_run(self.path))
        self._info = episode_rows.run_info(
            dict(zip([column[0] for column in cursor.description], found, strict=True))
        )
        return self._info

    def seal(self) -> bytes | None:
        """Seal the run as it is, before it closes; return the seal's tag."""
        with self.committing() as db:
            seal_run(db, self.signer)
            return seal_tag(db, self.info().id)

    def unseal(self, entered: Position | None) -> None:
        """Remove the seal of the run, since more rows will follow. `entered` is that entry of the ledger."""
        run = self.info().id
        with self.committing() as db:
            db.execute("DELETE FROM seals WHERE subject = ?", [run])
            if entered is not None:
                refuse_changed_rows(db, self.signer, "runs", "id = ?", run)
                db.execute("UPDATE runs SET ledger = ? WHERE id = ?", (json.dumps(entered), run))
                tag_rows(db, self.signer, "runs", "id = ?", run)

    def reported_costs(self) -> tuple[float, int]:
        """Return the cost of all attempts in US dollars, as their agents reported it, and how many attempts
        ended without a report."""
        with self.reading() as db:
            (spent, unreported) = db.execute(
                "SELECT coalesce(sum(cost), 0.0), count(*) - count(cost) FROM"
                " (SELECT json_extract(usage, '$.cost_usd') AS cost FROM episodes WHERE ended_us IS NOT NULL)"
            ).fetchone()
        return float(spent), int(unreported)

    # Episodes ------------------------------------------------------------------------------------

    def begin_episode(self, start: EpisodeStart) -> None:
        """Store an attempt that begins."""
        row = start.model_dump(exclude={"tools", "probes", "source", "trainable"})
        row["system"] = start.system or None
        row["untrainable"] = None if start.trainable else 1
        row["probes"] = jsonrpc.dumps(start.probes) if start.probes else None
        row["source"] = None if start.source is None else jsonrpc.dumps(start.source)
        row["tools"] = jsonrpc.dumps([tool.model_dump() for tool in start.tools])
        row["run"] = self.info().id
        after = self.last
        self._insert("episodes", row)
        self._began_after[start.id] = after
        self.observers.notify("episode_begun", self.info(), start)

    def end_episode(self, episode: str, end: EpisodeEnd, messages: Sequence[Message]) -> None:
        """Store how an episode ended and its conversation, and seal both. Its connections count as closed.

        An episode that began without tools gets those that its server listed.
        """
        row = {
            name: jsonrpc.clean(value) if isinstance(value, str) else value
            for name, value in end.model_dump().items()
        }
        row["usage"] = end.usage.model_dump_json(exclude_none=True) if end.usage else None
        columns = ", ".join(f"{name} = :{name}" for name in row)
        self.abandon_calls(episode)
        with self.committing() as db:
            changed = db.execute(
                f"UPDATE episodes SET {columns} WHERE id = :id AND ended_us IS NULL",  # noqa: S608
                {**row, "id": episode},
            ).rowcount
            if not changed:
                raise StorageError(f"{self.path}: there is no open episode {episode} to end")
            episode_rows.write_messages(db, episode, messages)
            # an imported episode has no server that could have listed tools
            if db.execute(
                "SELECT 1 FROM episodes WHERE id = ? AND tools = '[]' AND source IS NULL", [episode]
            ).fetchone():
                after = self._began_after.get(episode, 0)
                tools = [tool.model_dump() for tool in episode_rows.listed_tools(db, episode, after)]
                db.execute("UPDATE episodes SET tools = ? WHERE id = ?", (jsonrpc.dumps(tools), episode))
            tag_rows(db, self.signer, "messages", "episode = ?", episode)
            tag_rows(db, self.signer, "episodes", "id = ?", episode)
            seal_episode(db, self.signer, episode, self._began_after.get(episode))
        self._began_after.pop(episode, None)
        self.observers.notify("episode_ended", episode, end)

    def mark_died(self, done: Collection[str]) -> list[str]:
        """Mark the valid episodes that are not in `done` as invalid, since their referee died.

        They stay in the database; calls without a response get `transport_error`.

        Returns:
            Their ids.
        """
        with self.committing() as db:
            rows = db.execute("SELECT id FROM episodes WHERE invalid IS NULL ORDER BY id").fetchall()
            died = [episode for (episode,) in rows if episode not in done]
            places = episode_rows.frame_places(db) if died else {}
            for episode in died:
                for table, column in (("episodes", "id"), ("calls", "episode")):
                    refuse_changed_rows(db, self.signer, table, f"{column} = ?", episode)
                db.execute("UPDATE episodes SET invalid = ? WHERE id = ?", (REFEREE_DIED, episode))
                db.execute(
                    "UPDATE calls SET outcome = 'transport_error' WHERE episode = ? AND outcome IS NULL",
                    [episode],
                )
                tag_rows(db, self.signer, "calls", "episode = ?", episode)
                tag_rows(db, self.signer, "episodes", "id = ?", episode)
                first, _ = places.get(episode, (None, None))
                seal_episode(db, self.signer, episode, None if first is None else first - 1)
        return died

    def attempts(self) -> list[tuple[str, str, int, int, int]]:
        """Return `(episode, task, seed, repeat, attempt)` of every attempt, oldest first."""
        with self.reading() as db:
            rows = db.execute("SELECT id, task, seed, repeat, attempt FROM episodes ORDER BY id")
            return rows.fetchall()

    def began(self, episode: object) -> tuple[str, int, int, int, int] | None:
        """Return `(task, seed, repeat, attempt, started_us)` of an episode, or None if there is none."""
        with self.reading() as db:
            found: tuple[str, int, int, int, int] | None = db.execute(
                "SELECT task, seed, repeat, attempt, started_us FROM episodes WHERE id = ?", [episode]
            ).fetchone()
        return found

    def ended(self) -> set[str]:
        """Return the ids of the episodes that ended validly."""
        with self.reading() as db:
            rows = db.execute("SELECT id FROM episodes WHERE ended_us IS NOT NULL AND invalid IS NULL")
            return {episode for (episode,) in rows}

    def sealed(self, episode: str) -> bytes | None:
        """Return the tag of an episode's seal, or None before it has ended."""
        with self.reading() as db:
            return seal_tag(db, episode)

    def recorded_calls(self, episode: str) -> list[RecordedCall]:
        """Return the calls of an episode in the order the server ran them."""
        with self.reading() as db:
            return episode_rows.recorded_calls(db, episode)

    def listed_tools(self, episode: str) -> list[ToolSchema]:
        """Return the tools that the server of an episode listed."""
        with self.reading() as db:
            return episode_rows.listed_tools(db, episode, self._began_after.get(episode, 0))

    # Flags ---------------------------------------------------------------------------------------

    def flag(self, episode: str | None, kind: FlagKind, detail: str) -> None:
        """Store an attempt that was refused; `detail` says who made it, and where.

        A flag of an episode that has ended is stored without an episode, since the episode is sealed. Only
        the first `MAX_FLAGS` of a kind are stored per episode, so that an agent cannot fill the disk.
        """
        with self._flags_lock:
            self._flags[episode, kind] += 1
            if self._flags[episode, kind] > MAX_FLAGS:
                return
        with self.committing() as db:
            over = "SELECT 1 FROM episodes WHERE id = ? AND ended_us IS NOT NULL"
            if episode is not None and db.execute(over, [episode]).fetchone():
                episode, detail = None, f"{detail} (after the end of {episode})"
            number = db.execute(
                "INSERT INTO flags (episode, time_us, kind, detail) VALUES (?, ?, ?, ?)",
                (episode, now_us(), kind, detail),
            ).lastrowid
            tag_rows(db, self.signer, "flags", "id = ?", number)

    def flags(self, episode: str | None) -> list[Flag]:
        """Return the flags of an episode, or those without one, oldest first."""
        with self.reading() as db:
            return episode_rows.read_flags(db, episode)

    def _insert(self, table: str, row: dict[str, object]) -> None:
        columns, values = ", ".join(row), ", ".join("?" for _ in row)
        with self.committing() as db:
            db.execute(f"INSERT INTO {table} ({columns}) VALUES ({values})", tuple(row.values()))  # noqa: S608
            tag_rows(db, self.signer, table, "id = ?", row["id"])
