"""The sealed side of a run: `grades.db`, with one grade and one verdict per episode, and the canaries.

Only the referee's user can read it. It is written after the agent has ended, and nothing in it is ever copied
into `recordings.db`. The rewards of steps are sealed with the grade: they would reveal it. What worlds ask
their judges and users is written while the agent works.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue

from mcp_bench.recorder.errors import StorageError
from mcp_bench.recorder.frames import jsonrpc
from mcp_bench.recorder.store import schema
from mcp_bench.recorder.store.asked import Asked, add_asked
from mcp_bench.recorder.store.database import Writer
from mcp_bench.recorder.store.signatures import SEALED, Signer, put_seal, seal_tag, tag_rows, tags
from mcp_bench.recorder.taint import Canary, Scan

if TYPE_CHECKING:
    from mcp_bench.servers.contracts import Grade


class SealedGrades:
    """The only writer of one `grades.db` (mode 0600).

    A grade row means that its episode is done, so it is synced to the disk.
    """

    def __init__(self, path: Path, signer: Signer, sealed: Callable[[str], bytes | None]) -> None:
        """Open or create the file. `sealed` returns the tag of an episode's seal, for its grade."""
        self.path = path
        self._signer = signer
        self._sealed = sealed
        self._writer = Writer(path, schema.grades, lambda _: signer)
        self._writer.set_durability("full")

    def close(self) -> None:
        self._writer.close()

    def put(
        self,
        episode: str,
        grade: Grade,
        final_state: JsonValue,
        graded_us: int,
        *,
        rewards: Mapping[int, float] | None = None,
    ) -> None:
        """Store the grade of an episode that has ended.

        Args:
            episode: its id.
            grade: of the final state.
            final_state: what was graded.
            graded_us: when.
            rewards: of the steps that have one, finite numbers by the execution number of the call
                (1, 2, ..., as in `RecordedCall.execution`).

        Raises:
            StorageError: the episode is graded already (the first grade stays), or the file
                cannot be written.
        """
        self.put_imported(
            episode,
            partial=grade.partial,
            strict=grade.strict,
            assertions=[assertion.model_dump(mode="json") for assertion in grade.assertions],
            metrics=dict(grade.metrics),
            grader_version=grade.grader_version,
            final_state=final_state,
            graded_us=graded_us,
            score=None if grade.score is None else grade.score.model_dump(mode="json"),
            submissions=[score.model_dump(mode="json") for score in grade.submissions],
            certain=grade.certain,
            rewards=rewards,
        )

    def put_imported(
        self,
        episode: str,
        *,
        partial: float,
        strict: bool,
        assertions: JsonValue,
        metrics: JsonValue,
        grader_version: str,
        final_state: JsonValue,
        graded_us: int,
        score: JsonValue = None,
        submissions: list[JsonValue] | None = None,
        certain: bool = True,
        rewards: Mapping[int, float] | None = None,
    ) -> None:
        """Store a grade from another program, which does not have to follow the rules of a `Grade`.

        Raises:
            StorageError: as for `put`.
        """
        row = (
            episode,
            partial,
            strict,
            jsonrpc.dumps(assertions),
            jsonrpc.dumps(metrics),
            grader_version,
            jsonrpc.dumps(final_state),
            graded_us,
            self._sealed(episode),
        )
        with self._writer.transaction() as db:
            stored = db.execute(
                "INSERT INTO grades (episode, partial, strict, assertions, metrics, grader_version,"
                " final_state, graded_us, recording) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
                " ON CONFLICT DO NOTHING",
                row,
            ).rowcount
            if stored:
                tag_rows(db, self._signer, "grades", "episode = ?", episode)
                if score is not None or submissions or not certain:
                    measured = [
                        None if value is None else jsonrpc.dumps(value) for value in (score, submissions)
                    ]
                    db.execute(
                        "INSERT INTO scores (episode, score, submissions, certain) VALUES (?, ?, ?, ?)",
                        (episode, *measured, certain),
                    )
                    tag_rows(db, self._signer, "scores", "episode = ?", episode)
                db.executemany(
                    "INSERT INTO rewards (episode, execution, reward) VALUES (?, ?, ?)",
                    [(episode, execution, reward) for execution, reward in (rewards or {}).items()],
                )
                tag_rows(db, self._signer, "rewards", "episode = ?", episode)
        if not stored:
            raise StorageError(f"{self.path}: episode {episode} has a grade already")

    def put_asked(self, episode: str, asked: Asked) -> None:
        """Store what a world asked a model, at once: it was paid for, whatever becomes of the episode."""
        with self._writer.transaction() as db:
            tag_rows(db, self._signer, "asked", "id = ?", add_asked(db, episode, asked))

    def asked_cost(self) -> float:
        """Return the cost of all questions in US dollars, as far as it is known."""
        with self._writer.reading() as db:
            found = db.execute("SELECT coalesce(sum(json_extract(usage, '$.cost_usd')), 0.0) FROM asked")
            return float(found.fetchone()[0])

    def put_scan(self, episode: str, scan: Scan, scanned_us: int) -> None:
        """Store the verdict on an episode that has ended; it replaces an earlier one."""
        self.put_scans({episode: scan}, scanned_us)

    def put_scans(self, scans: Mapping[str, Scan], scanned_us: int) -> None:
        """Store the verdicts on episodes in one commit, as `put_scan` does."""
        stored = [
            (
                episode,
                scan.verdict,
                jsonrpc.dumps(scan.rows()),
                scan.scanner_version,
                scanned_us,
                self._sealed(episode),
            )
            for episode, scan in scans.items()
        ]
        with self._writer.transaction() as db:
            db.executemany(
                "INSERT OR REPLACE INTO scans (episode, verdict, evidence, scanner_version, scanned_us,"
                " recording) VALUES (?, ?, ?, ?, ?, ?)",
                stored,
            )
            for episode in scans:
                tag_rows(db, self._signer, "scans", "episode = ?", episode)

    def drop_scans(self, episodes: Iterable[str]) -> None:
        """Remove the verdicts on episodes. `mcp-bench scan` can give them again."""
        with self._writer.transaction() as db:
            db.executemany("DELETE FROM scans WHERE episode = ?", [(one,) for one in episodes])

    def tainted(self) -> list[str]:
        """Return the ids of the episodes with evidence against their agents."""
        with self._writer.reading() as db:
            rows = db.execute("SELECT episode FROM scans WHERE verdict = 'tainted' ORDER BY 1")
            return [episode for (episode,) in rows]

    def put_canary(self, canary: Canary, made_us: int) -> None:
        with self._writer.transaction() as db:
            db.execute(
                "INSERT INTO canaries (place, value, made_us) VALUES (?, ?, ?)",
                (canary.place, canary.value, made_us),
            )
            tag_rows(db, self._signer, "canaries", "place = ?", canary.place)

    def canaries(self) -> list[Canary]:
        with self._writer.reading() as db:
            rows = db.execute("SELECT place, value FROM canaries ORDER BY place")
            return [Canary(*row) for row in rows]

    def seal(self, run: str, recording: bytes | None) -> bytes:
        """Seal the grades of a run that closes; return the seal's tag, which covers the whole run.

        `recording` is the tag of its recordings' seal.
        """
        with self._writer.transaction() as db:
            contents: dict[str, object] = {"recording": recording and recording.hex()}
            contents |= {table: tags(db, table) for table in SEALED}
            return put_seal(db, self._signer, run, contents)

    def state(self, run: str) -> str:
        """Return the tag of the seal in hexadecimal digits; empty if the run is not sealed."""
        with self._writer.reading() as db:
            found = seal_tag(db, run)
        return found.hex() if isinstance(found, bytes) else ""

    def unseal(self, run: str) -> None:
        """Remove the seal, since more rows will follow."""
        with self._writer.transaction() as db:
            db.execute("DELETE FROM seals WHERE subject = ?", [run])

    def attached(self, part: Path) -> AbstractContextManager[sqlite3.Connection]:
        """Yield the database within a transaction, with another one as `part`."""
        return self._writer.attached(part)

    def graded(self) -> set[str]:
        """Return the ids of the episodes that have a grade."""
        with self._writer.reading() as db:
            return {episode for (episode,) in db.execute("SELECT episode FROM grades")}
