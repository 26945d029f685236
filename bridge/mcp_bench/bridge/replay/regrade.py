"""Regrade recordings: replay each graded episode and compare the results with the stored ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import anyio

from mcp_bench.bridge.episode.episode import chat_messages
from mcp_bench.bridge.replay.replay import Difference, Normal, replay, value_differences
from mcp_bench.bridge.roles.stored_host import StoredHost
from mcp_bench.recorder.frames import jsonrpc
from mcp_bench.recorder.importers.attempt import UNKNOWN
from mcp_bench.recorder.runs.reader import RunReader, StoredEpisode
from mcp_bench.servers.contracts import JSON, Benchmark, GradesStates
from mcp_bench.servers.errors import BenchError
from mcp_bench.servers.grading import Grade, Score
from mcp_bench.servers.registry import load

STATE_DIFFERENCES = 50
"""Maximum number of differences of a final state to report."""
REPLAY_SECONDS = 900.0

Status = Literal["same", "differs", "not possible"]


@dataclass(frozen=True, slots=True)
class Graded:
    """A graded episode and the path of its run."""

    path: Path
    episode: StoredEpisode


@dataclass(slots=True)
class Regraded:
    """Result of regrading one episode. `detail` says why it was not possible."""

    graded: Graded
    status: Status = "not possible"
    detail: str = ""
    calls: int = 0
    uncompared: int = 0
    """Replayed calls without a recorded result."""
    grade: Grade | None = None
    differences: list[Difference] = field(default_factory=list)


def graded_episodes(paths: Sequence[Path]) -> Iterator[Graded]:
    """Yield the graded episodes of runs."""
    for path in paths:
        with RunReader(path) as reader:
            for episode in reader.episodes():
                if episode.partial is not None:
                    yield Graded(path, episode)


class Benchmarks:
    """Loads each benchmark once."""

    def __init__(self) -> None:
        self._loaded: dict[str, Benchmark] = {}

    def fitting(self, episode: StoredEpisode) -> Benchmark:
        """Return the benchmark of an episode.

        Raises:
            BenchError: it is not installed, has another version, or does not support replay.
        """
        name = episode.benchmark
        found = self._loaded.get(name) or self._loaded.setdefault(name, load("benchmark", name))
        if found.replay == "none" and not isinstance(found, GradesStates):
            raise BenchError(f"{name} does not support replay")
        if episode.benchmark_version == UNKNOWN:
            raise BenchError(f"it was imported, and its version of {name} is not known")
        if found.version != episode.benchmark_version:
            raise BenchError(
                f"it was recorded with {name} {episode.benchmark_version}, but {found.version} is "
                "installed. Replay it with that version"
            )
        return found

    async def close(self) -> None:
        for benchmark in self._loaded.values():
            await benchmark.aclose()


async def regrade_all(
    episodes: Sequence[Graded], jobs: int, report: Callable[[Regraded], object]
) -> list[Regraded]:
    """Regrade episodes, `jobs` at a time; return the results in order. Calls `report` with each result."""
    benchmarks = Benchmarks()
    done: dict[int, Regraded] = {}
    waiting = iter(enumerate(episodes))

    async def work_through() -> None:
        for number, graded in waiting:  # all workers share one iterator, so each episode runs once
            done[number] = await regrade(benchmarks, graded)
            report(done[number])

    try:
        async with anyio.create_task_group() as workers:
            for _ in range(min(jobs, len(episodes))):
                workers.start_soon(work_through)
    finally:
        with anyio.CancelScope(shield=True):
            await benchmarks.close()
    return [done[number] for number in sorted(done)]


async def regrade(benchmarks: Benchmarks, graded: Graded) -> Regraded:
    """Replay one episode and compare results, final state and grade with the stored ones.

    Where the grade follows from the stored state alone, nothing is replayed.
    """
    episode, outcome = graded.episode, Regraded(graded)
    try:
        benchmark = await anyio.to_thread.run_sync(benchmarks.fitting, episode)
        with RunReader(graded.path) as reader:
            calls = list(reader.executed_calls(episode.id))
            stored_state = reader.final_state(episode.id)
            stored_grade = _stored_grade(episode, reader)
            rewards = reader.rewards(episode.id)
            host = StoredHost(reader.asked(episode.id))
            transcript = chat_messages(reader.messages(episode.id))
        if isinstance(benchmark, GradesStates):
            outcome.grade = await anyio.to_thread.run_sync(benchmark.grade_state, episode.task, stored_state)
            now = as_stored(facts(outcome.grade))
            outcome.differences = _differences("grade", stored_grade, now, Normal(benchmark.replay_ignores))
            outcome.status = "differs" if outcome.differences else "same"
            return outcome
        outcome.calls = len(calls)
        outcome.uncompared = sum(call.result is None for call in calls)
        with anyio.move_on_after(REPLAY_SECONDS) as limit:
            found, grade, state = await replay(
                benchmark,
                episode.task,
                episode.seed,
                calls,
                episode.answer or "",
                rewards=rewards,
                host=host,
                transcript=transcript,
            )
    except Exception as error:  # a benchmark's own code, or an unreadable recording
        outcome.detail = str(error) if isinstance(error, BenchError) else f"{type(error).__name__}: {error}"
        return outcome
    if limit.cancelled_caught:
        outcome.detail = f"the replay did not finish within {REPLAY_SECONDS:.0f} seconds"
        return outcome
    normal = Normal(benchmark.replay_ignores)
    compare = partial(_differences, normal=normal)
    outcome.differences = [
        *found,
        *compare("state", stored_state, as_stored(state)),
        *compare("grade", stored_grade, as_stored(facts(grade))),
    ]
    outcome.grade = grade
    outcome.status = "differs" if outcome.differences else "same"
    return outcome


def _differences(what: str, then: Any, now: Any, normal: Normal) -> list[Difference]:
    parts = islice(value_differences(then, now, normal), STATE_DIFFERENCES)
    return [Difference(what, path, before, after) for path, before, after in parts]


def as_stored(value: JSON) -> Any:
    """Return a value as a recording has it, such as NaN as a text: only that can be compared."""
    return json.loads(jsonrpc.dumps(value))


def facts(grade: Grade) -> dict[str, JSON]:
    """Return the parts of a grade to compare; the wording of details is not among them."""
    return {
        "partial": grade.partial,
        "strict": grade.strict,
        "assertions": {assertion.name: assertion.passed for assertion in grade.assertions},
        "metrics": dict(grade.metrics),
        "score": _measured(grade.score),
        "submissions": [_measured(one) for one in grade.submissions],
        "grader_version": grade.grader_version,
    }


def _stored_grade(episode: StoredEpisode, reader: RunReader) -> dict[str, Any]:
    assertions = reader.assertions(episode.id)
    return {
        "partial": episode.partial,
        "strict": episode.strict,
        "assertions": {one.get("name"): one.get("passed") for one in assertions},
        "metrics": reader.metrics(episode.id),
        "score": _measured(episode.score),
        "submissions": [_measured(one) for one in reader.submissions(episode.id)],
        "grader_version": episode.grader_version,
    }


def _measured(score: Score | None) -> JSON:
    return None if score is None else score.model_dump(mode="json")
