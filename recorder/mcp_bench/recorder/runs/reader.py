"""Read run folders lazily: episodes joined with their sealed grades, one at a time."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

from pydantic import TypeAdapter
from pydantic_core import from_json

from mcp_bench.recorder.errors import StorageError
from mcp_bench.recorder.records import Flag, RecordedCall, RunInfo
from mcp_bench.recorder.run_settings import RunSettings, ScoreSettings
from mcp_bench.recorder.runs.annotations import Annotations, known_annotations
from mcp_bench.recorder.runs.run_database import RunDatabase, as_kind
from mcp_bench.recorder.runs.run_summary import RunSummary
from mcp_bench.recorder.runs.stored_rows import RowCheck, check_ids
from mcp_bench.recorder.store import episode_rows
from mcp_bench.recorder.store.asked import Asked, read_asked
from mcp_bench.recorder.store.episode_rows import ExecutedCall, Outcome, Running
from mcp_bench.recorder.store.model_calls import StoredModelCall, read_answers, read_bodies, read_model_calls
from mcp_bench.recorder.taint import Canary, Taint
from mcp_bench.recorder.trajectory import Message, ToolSchema, Usage
from mcp_bench.servers.errors import UnknownNameError
from mcp_bench.servers.grading import Score

_TOOLS = TypeAdapter(list[ToolSchema])
_SCORES = TypeAdapter(list[Score])
_NEAR_MATCHES_AMONG = 1000
"""An unknown id is compared with this many of the newest, since comparing is slow."""

_NO_SETTINGS = ScoreSettings.of(RunSettings())


@dataclass(slots=True)  # not frozen: that makes creation ten times slower, and reports create very many
class StoredEpisode:
    """One attempt with its run and its grade (`partial` and `strict` are None without a grade)."""

    id: str
    run: str
    benchmark: str
    benchmark_version: str
    agent: str
    agent_version: str
    model: str | None
    isolation: str
    home: str
    tools_mode: str
    task: str
    split: str
    domain: str
    prompt: str
    seed: int
    repeat: int
    attempt: int
    started_us: int
    ended_us: int | None
    termination: str | None
    invalid: str | None
    invalid_detail: str | None
    exit_code: int | None
    answer: str | None
    usage: dict[str, Any] | None
    connections: int
    calls: int
    failed_calls: int
    """Calls without a result, or whose result is an error of the tool."""
    partial: float | None
    strict: bool | None
    grader_version: str | None
    probes: dict[str, Any] | None = None
    """Results of the probes of its isolation level, by name; None without probes."""
    taint: Taint = "unknown"
    """Whether its agent looked for its grade."""
    settings: RunSettings = field(default_factory=RunSettings)
    """Of its run, shared by its episodes."""
    score: Score | None = None
    """What its grade measured."""
    certain: bool = True
    """False if a model gave the verdict."""
    trainable: bool = True
    """False if its benchmark forbids training on the task."""
    roles_usd: float | None = None
    """What the models of its world's roles cost, as far as it is known; None without such models."""
    submissions: tuple[float, ...] = ()
    """How far each submission was from the baseline (0) to par (1), where its world measured both."""
    run_tags: tuple[str, ...] = ()
    """The operator's words about its run, as `run_note`."""
    run_note: str = ""
    score_settings: ScoreSettings = _NO_SETTINGS
    """Made from `settings`, once for all episodes of the run."""

    @property
    def seconds(self) -> float | None:
        """The time from its start to its end; None if it never ended."""
        return None if self.ended_us is None else (self.ended_us - self.started_us) / 1e6

    @property
    def public(self) -> bool | None:
        """Whether anybody can generate or download the task; None if its run does not say."""
        private = self.settings.private_splits
        return None if private is None else self.split not in private

    @property
    def claim(self) -> str | None:
        """The reason of a failure that the agent of a valid episode reported, and that was not believed."""
        if self.invalid is not None or not self.invalid_detail:
            return None
        return self.invalid_detail.partition(":")[0]


_EPISODE = RowCheck(StoredEpisode, or_none=("submissions",))
_SUMMARY, _OUTCOME, _RUNNING = map(RowCheck, (RunSummary, Outcome, Running))


class RunReader(RunDatabase):
    """Read-only view of one run folder, also while it is being recorded. A context manager."""

    def summary(self) -> RunSummary | None:
        """Return what a list shows of the run; None: its writer was killed before it was stored.

        Raises:
            StorageError: its plan cannot be read.
        """
        counted = episode_rows.COUNTED if self._overview else ""
        found = [RunSummary(*row) for row in self._checked(_SUMMARY, episode_rows.SUMMARY + counted)]
        if not found:
            return None
        if found[0].planned < 0:
            raise StorageError(
                f"{self._file} is damaged (its plan is no JSON): see `mcp-bench verify {found[0].id}`"
            )
        return replace(found[0], tags=self.annotations.tags, note=self.annotations.note)

    def info(self) -> RunInfo:
        """Return the run as it was planned, with its settings.

        Raises:
            StorageError: its writer was killed before it was stored, or it cannot be read.
        """
        with self._reading():
            for row in self._query("SELECT * FROM runs LIMIT 1"):
                return episode_rows.run_info(dict(row))
        raise StorageError(episode_rows.no_run(self._file))

    def planned_tasks(self) -> set[str]:
        """Return the ids of the tasks in the run's plan, attempted or not."""
        rows = self._query("SELECT json_extract(value, '$.task') FROM runs, json_each(plan)")
        return {task for (task,) in rows}

    def episodes(self) -> Iterator[StoredEpisode]:
        """Yield the last attempt of every slot, in order of their start.

        Raises:
            StorageError: one cannot be read.
        """
        sql = f"{episode_rows.EPISODES}{episode_rows.LAST} ORDER BY e.id"
        with self._reading(), closing(self._query(sql)) as rows:
            for row in rows:
                yield _stored(row, self.annotations)

    def outcomes(self) -> Iterator[Outcome]:
        """Yield what became of the last attempt of every slot: quicker than `episodes`, in the same order."""
        sql = f"{episode_rows.OUTCOMES}{episode_rows.LAST} ORDER BY e.id"
        return map(Outcome._make, self._checked(_OUTCOME, sql))

    def running(self) -> Iterator[Running]:
        """Yield the attempts that have not ended, in order of their start.

        In a run that nobody records any more, those were cut off.
        """
        return map(Running._make, self._checked(_RUNNING, episode_rows.RUNNING))

    def episode(self, episode: str) -> StoredEpisode:
        """Return one attempt, which need not be the last of its slot.

        Raises:
            UnknownNameError: the run has no such episode.
            StorageError: it cannot be read.
        """
        row = self._row(episode_rows.EPISODES + " WHERE e.id = ?", episode)
        with self._reading():
            return _stored(row, self.annotations)

    @cached_property
    def annotations(self) -> Annotations:
        """The operator's words about the run."""
        return known_annotations(self.path)

    def episode_ids(self) -> list[str]:
        """Return the ids of all attempts, in order of their start.

        Raises:
            StorageError: they cannot be read.
        """
        with self._reading():
            found = [episode for (episode,) in self._query("SELECT id FROM episodes ORDER BY id")]
            check_ids(found)
        return found

    def tools(self, episode: str) -> list[ToolSchema]:
        """Return the tools that an episode's agent was given.

        Raises:
            UnknownNameError: the run has no such episode.
            StorageError: they cannot be read.
        """
        (text,) = self._row("SELECT tools FROM episodes WHERE id = ?", episode)
        with self._reading():
            return list(_tools(text))

    def system(self, episode: str) -> str:
        """Return the instructions of an episode's task besides its prompt; empty if it has none.

        Raises:
            UnknownNameError: the run has no such episode.
        """
        if not self._task_facts:
            return ""
        (text,) = self._row("SELECT system FROM episodes WHERE id = ?", episode)
        return text or ""

    def messages(self, episode: str) -> list[Message]:
        """Return the stored conversation; empty if the episode never ended.

        Raises:
            StorageError: it cannot be read.
        """
        with self._reading():
            return episode_rows.read_messages(self._connection, episode)

    def calls(self, episode: str) -> list[RecordedCall]:
        """Return the calls of an episode, in the order in which the server ran them.

        Raises:
            StorageError: they cannot be read.
        """
        with self._reading():
            return episode_rows.recorded_calls(self._connection, episode)

    def call_outcomes(self) -> Iterator[tuple[str, str, str | None, float | None]]:
        """Yield `(episode, tool, outcome, milliseconds)` of every call, without reading any result."""
        rows = self._query("SELECT episode, coalesce(tool, ''), outcome, ended_us - started_us FROM calls")
        yield from ((row[0], row[1], row[2], row[3] if row[3] is None else row[3] / 1000) for row in rows)

    def outcome(self) -> tuple[int, int, float | None, float | None]:
        """Return the numbers of invalid and of valid graded last attempts, and the means of their scores."""
        rows = self._query(f"{episode_rows.OUTCOME}{episode_rows.LAST})")
        return next(((int(row[0]), *row[1:]) for row in rows), (0, 0, None, None))

    def executed_calls(self, episode: str) -> Iterator[ExecutedCall]:
        """Yield the calls that the server ran, in order of execution, with their whole results."""
        with self._reading():
            yield from episode_rows.executed_calls(self._connection, episode)

    def model_calls(self, episode: str) -> list[StoredModelCall]:
        """Return the captured requests to the agent's model, oldest first."""
        with self._reading():
            return read_model_calls(self._connection, episode)

    def model_answers(self, episode: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Yield `(id, dialect, assembled answer)` of those that requested a turn and got one; without any, of
        the requests on the side."""
        with self._reading():
            yield from read_answers(self._connection, episode)

    def model_bodies(self, call: str) -> tuple[str | bytes, str | bytes | None, Any]:
        """Return the request and response of a captured call as stored, and the assembled answer."""
        with self._reading():
            return read_bodies(self._connection, call)

    def flags(self, episode: str | None) -> list[Flag]:
        """Return the flags of an episode, or those without one, oldest first."""
        with self._reading():
            return [] if self.empty else episode_rows.read_flags(self._connection, episode)

    def assertions(self, episode: str) -> list[dict[str, Any]]:
        """Return the assertions that an episode's grade rests on, as objects; empty without a grade.

        Raises:
            StorageError: they cannot be read.
        """
        return self._json([], "SELECT assertions FROM sealed.grades WHERE episode = ?", episode)

    def metrics(self, episode: str) -> dict[str, Any]:
        """Return what an episode's grader measured besides the grade, by name; empty without a grade.

        Raises:
            StorageError: they cannot be read.
        """
        return self._json({}, "SELECT metrics FROM sealed.grades WHERE episode = ?", episode)

    def submissions(self, episode: str) -> list[Score]:
        """Return the scores of all submissions of an attempt, in their order."""
        with self._reading():
            for (text,) in self._query("SELECT submissions FROM scores WHERE episode = ?", episode):
                return _SCORES.validate_json(text) if text else []
        return []

    def rewards(self, episode: str) -> dict[int, float]:
        """Return the rewards of the steps that have one, by the execution number of the call."""
        rows = self._query(
            "SELECT execution, reward FROM rewards WHERE episode = ? ORDER BY execution", episode
        )
        return {int(execution): float(reward) for execution, reward in rows}

    def asked(self, episode: str) -> list[Asked]:
        """Return what the episode's world asked the models of its roles, in order."""
        with self._reading():
            return [] if self.empty else list(read_asked(self._connection, episode))

    def evidence_of_taint(self, episode: str) -> list[dict[str, Any]]:
        """Return the stored evidence of the verdict on an episode: `Evidence` of recorder.taint."""
        return self._json([], "SELECT evidence FROM sealed.scans WHERE episode = ?", episode)

    def canaries(self) -> list[Canary]:
        """Return the values that were planted where an agent finds them only if it looks for its grade.

        Raises:
            StorageError: they cannot be read.
        """
        return [Canary(*row) for row in self._query("SELECT place, value FROM sealed.canaries")]

    def settings(self) -> RunSettings:
        """Return the settings of the run; empty if its writer was killed before it was stored."""
        with self._reading():
            for (text,) in self._query("SELECT settings FROM runs"):
                return RunSettings.model_validate_json(text)
        return RunSettings()

    def cost(self) -> float:
        """Return the cost of all attempts in US dollars, with the models of roles, as far as it is known."""
        rows = self._query(episode_rows.COST)
        return next((float(cost) for (cost,) in rows), 0.0)

    def own_tools(self) -> bool:
        """Return whether the agents of the run may have had tools besides those on their MCP connection."""
        return self.settings().own_tools is not False

    def frame_bodies(self, episode: str) -> Iterator[tuple[int, str, bytes]]:
        """Yield `(number, sender, bytes)` of the frames of an episode.

        Frames of `LARGE` bytes or more (see `frames.body`) come in overlapping pieces.
        """
        with self._reading():
            within = None if self._frame_places is None else self._frame_places.get(episode, (1, 0))
            yield from episode_rows.frame_bodies(self._connection, episode, within)

    def final_state(self, episode: str) -> Any:
        """Return the state that was graded; None without a grade."""
        return self._json(None, "SELECT final_state FROM sealed.grades WHERE episode = ?", episode)

    def _row(self, sql: str, episode: str) -> sqlite3.Row:
        """Return the only row of a query for an episode.

        Raises:
            UnknownNameError: the run has no such episode.
        """
        for row in self._query(sql, episode):
            return row
        raise UnknownNameError("episode", episode, self.episode_ids()[-_NEAR_MATCHES_AMONG:])


@lru_cache(maxsize=256)  # attempts at a task have the same tools, and so have most tasks of a benchmark
def _tools(text: str) -> tuple[ToolSchema, ...]:
    return tuple(_TOOLS.validate_python(episode_rows.stored_json(text)))


@lru_cache(maxsize=256)
def _settings(text: str) -> tuple[RunSettings, ScoreSettings]:
    """Return the settings of a run: one text for all of its episodes."""
    settings = RunSettings.model_validate_json(text)
    return settings, ScoreSettings.of(settings)


def _stored(row: sqlite3.Row, annotations: Annotations) -> StoredEpisode:
    episode = StoredEpisode(*_EPISODE(row))
    episode.run_tags, episode.run_note = annotations.tags, annotations.note
    episode.usage = from_json(row["usage"]) if row["usage"] else None
    Usage.model_validate(episode.usage or {}, strict=True)
    episode.probes = as_kind(from_json(row["probes"]), dict) if row["probes"] else None
    episode.settings, episode.score_settings = _settings(row["settings"])
    episode.strict = None if row["strict"] is None else bool(row["strict"])
    episode.score = Score.model_validate_json(row["score"]) if row["score"] else None
    given = from_json(row["submissions"]) if row["submissions"] else []
    shares = [Score.model_validate(score).share_of_par for score in given]
    episode.submissions = tuple(share for share in shares if share is not None)
    episode.certain, episode.trainable = bool(row["certain"]), bool(row["trainable"])
    return episode
