"""Episodes and calls as flat rows. An episode also leads to its conversation, its grade and its calls."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_bench.api.frame import Frame

if TYPE_CHECKING:
    from mcp_bench.recorder.records import Flag
    from mcp_bench.recorder.runs.reader import RunReader, StoredEpisode
    from mcp_bench.recorder.taint import Evidence
    from mcp_bench.recorder.trajectory import Trajectory
    from mcp_bench.servers.grading import AssertionResult, Grade


@dataclass(frozen=True)
class Episode:
    """One attempt by one agent at one task, with its grade. Every field is a column of a frame."""

    id: str
    run: str
    benchmark: str
    benchmark_version: str
    agent: str
    agent_version: str
    model: str | None
    task: str
    split: str
    domain: str
    seed: int
    repeat: int
    """0, 1, ...: the number of the attempt that was planned for this task and seed."""
    attempt: int
    """1, 2, ...: counts retries of an invalid attempt."""
    outcome: str
    """`solved`, `failed`, `not graded`, `invalid` or `running`."""
    partial: float | None
    """Share of the task's assertions that hold, from 0 to 1."""
    strict: bool | None
    """Whether the task is solved, by the benchmark's own definition."""
    score: float | None
    """What the benchmark measured; `grade.score` has its name, unit and direction."""
    invalid: str | None
    """Reason code of an episode that says nothing about the agent."""
    detail: str | None
    """More about `invalid`, or the failure that the agent of a valid episode reported."""
    termination: str | None
    """How the agent ended: agent_exit, timeout, max_calls, crash, cancelled or world_over."""
    exit_code: int | None
    started: datetime
    """UTC."""
    seconds: float | None
    """Wall-clock time; None while it runs."""
    tool_calls: int
    """Number of tool calls."""
    failed_calls: int
    """Calls without a result, or whose result is an error of the tool."""
    input_tokens: int | None
    """As the agent reported, like the other counts; None if it did not."""
    output_tokens: int | None
    cached_tokens: int | None
    """Part of `input_tokens` that the provider read from its cache."""
    model_calls: int | None
    cost_usd: float | None
    roles_cost_usd: float | None
    """What the models that play a role in its world cost, as far as it is known."""
    isolation: str
    agent_home: str
    """`sealed` or `native`."""
    tools: str
    """`mcp-only` or `all`."""
    verified: bool
    """Whether the grade was out of the agent's reach."""
    taint: str
    """`clean`, `tainted` or `unknown`: whether the agent looked for its grade."""
    public_task: bool | None
    """Whether anybody can know the task beforehand."""
    prompt: str
    answer: str | None
    """The agent's last message."""

    @property
    def _path(self) -> Path:
        """The folder of its run. It is no field, since a frame has no column for it."""
        folder: Path = self.__dict__["_folder"]
        return folder

    def __repr__(self) -> str:
        score = "" if self.partial is None else f", partial {self.partial:.2f}"
        return f"<Episode {self.id}: {self.agent} on {self.task}, {self.outcome}{score}>"

    def calls(self) -> Frame[Call]:
        """Return the tool calls, in the order in which the server ran them."""
        with self._reader() as reader:
            return Frame(Call, calls_of(self, reader))

    def trajectory(self, *, model_calls: bool = False) -> Trajectory:
        """Return the conversation with the tool schemas.

        Args:
            model_calls: add the captured model call of each turn (`record(..., capture_llm=True)`).
        """
        from mcp_bench.recorder.conversations.load import trajectory

        with self._reader() as reader:
            return trajectory(reader, reader.episode(self.id), model_calls=model_calls)

    @property
    def grade(self) -> Grade | None:
        """The grade of the final state with its assertions; None without one."""
        from mcp_bench.servers.grading import Grade

        with self._reader() as reader:
            stored = reader.episode(self.id)
            if stored.partial is None:
                return None
            # stored grades were checked when they were made; imported ones follow other rules
            return Grade.model_construct(
                partial=stored.partial,
                strict=bool(stored.strict),
                assertions=tuple(assertions_of(reader, self.id)),
                metrics=reader.metrics(self.id),
                grader_version=stored.grader_version or "",
                score=stored.score,
                submissions=tuple(reader.submissions(self.id)),
                certain=stored.certain,
            )

    @property
    def assertions(self) -> tuple[AssertionResult, ...]:
        """The checks on the final state; none without a grade."""
        with self._reader() as reader:
            return tuple(assertions_of(reader, self.id))

    @property
    def flags(self) -> tuple[Flag, ...]:
        """Attempts of the agent that the referee refused."""
        with self._reader() as reader:
            return tuple(reader.flags(self.id))

    @property
    def evidence_of_taint(self) -> tuple[Evidence, ...]:
        """Why the episode is tainted."""
        from mcp_bench.recorder.taint import Evidence

        with self._reader() as reader:
            return tuple(Evidence(**found) for found in reader.evidence_of_taint(self.id))

    def final_state(self) -> Any:
        """Return the state that was graded, as JSON; None without a grade."""
        with self._reader() as reader:
            return reader.final_state(self.id)

    def log(self, stream: str = "stdout") -> str:
        """Return what the agent printed, on `stdout` or `stderr`. It is the agent's text: do not trust it."""
        path = self._path / "logs" / f"{self.id}.{stream}.log"
        return path.read_text(errors="replace") if path.is_file() else ""

    def _reader(self) -> RunReader:
        from mcp_bench.recorder.runs.reader import RunReader

        return RunReader(self._path)


@dataclass(frozen=True)
class Call:
    """One tool call. Every field is a column of a frame."""

    episode: str
    run: str
    agent: str
    model: str | None
    task: str
    number: int
    """1, 2, ... within the episode."""
    tool: str
    arguments: str
    """A JSON object; `args` has it as a dict."""
    result: str
    """The text that the agent received."""
    outcome: str | None
    """ok, tool_error, rpc_error, transport_error or cancelled; None while the call is open."""
    execution: int | None
    """1, 2, ...: the order in which the server ran the calls; None if it never ran this one."""
    started: datetime
    """UTC."""
    seconds: float | None
    """Until the result; None without one."""

    @property
    def args(self) -> dict[str, Any]:
        """The arguments."""
        found: dict[str, Any] = json.loads(self.arguments)
        return found

    def __repr__(self) -> str:
        return f"<Call {self.number}: {self.tool} {self.arguments}, {self.outcome}>"


def episode_of(stored: StoredEpisode, folder: Path) -> Episode:
    """Return the row of a stored episode of the run in `folder`."""
    from mcp_bench.recorder.taint import verified

    usage = stored.usage or {}
    episode = Episode(
        id=stored.id,
        run=stored.run,
        benchmark=stored.benchmark,
        benchmark_version=stored.benchmark_version,
        agent=stored.agent,
        agent_version=stored.agent_version,
        model=stored.model,
        task=stored.task,
        split=stored.split,
        domain=stored.domain,
        seed=stored.seed,
        repeat=stored.repeat,
        attempt=stored.attempt,
        outcome=_outcome(stored),
        partial=None if stored.invalid is not None else stored.partial,
        strict=None if stored.invalid is not None else stored.strict,
        score=None if stored.invalid is not None or stored.score is None else stored.score.value,
        invalid=stored.invalid,
        detail=stored.invalid_detail,
        termination=stored.termination,
        exit_code=stored.exit_code,
        started=_time(stored.started_us),
        seconds=_seconds(stored.started_us, stored.ended_us),
        tool_calls=stored.calls,
        failed_calls=stored.failed_calls,
        input_tokens=usage.get("input_tokens"),
        output_tokens=usage.get("output_tokens"),
        cached_tokens=usage.get("cached_tokens"),
        model_calls=usage.get("model_calls"),
        cost_usd=usage.get("cost_usd"),
        roles_cost_usd=stored.roles_usd,
        isolation=stored.isolation,
        agent_home=stored.home,
        tools=stored.tools_mode,
        verified=verified(stored),
        taint=stored.taint,
        public_task=stored.public,
        prompt=stored.prompt,
        answer=stored.answer,
    )
    object.__setattr__(episode, "_folder", folder)
    return episode


def calls_of(episode: Episode, reader: RunReader) -> Iterator[Call]:
    """Yield the calls of an episode."""
    for number, call in enumerate(reader.calls(episode.id), 1):
        yield Call(
            episode=episode.id,
            run=episode.run,
            agent=episode.agent,
            model=episode.model,
            task=episode.task,
            number=number,
            tool=call.tool,
            arguments=json.dumps(call.arguments, ensure_ascii=False),
            result=call.text,
            outcome=call.outcome,
            execution=call.execution,
            started=_time(call.started_us),
            seconds=_seconds(call.started_us, call.ended_us),
        )


def assertions_of(reader: RunReader, episode: str) -> Iterator[AssertionResult]:
    from mcp_bench.servers.grading import AssertionResult

    for found in reader.assertions(episode):
        yield AssertionResult.model_construct(
            name=str(found.get("name", "")),
            passed=bool(found.get("passed")),
            kind=found.get("kind", "objective"),
            detail=str(found.get("detail", "")),
        )


def _outcome(stored: StoredEpisode) -> str:
    if stored.invalid is not None:
        return "invalid"
    if stored.partial is None:
        return "running" if stored.ended_us is None else "not graded"
    return "solved" if stored.strict else "failed"


def _time(microseconds: int) -> datetime:
    seconds, rest = divmod(microseconds, 1_000_000)
    return datetime.fromtimestamp(seconds, tz=UTC).replace(microsecond=rest)


def _seconds(started_us: int, ended_us: int | None) -> float | None:
    return None if ended_us is None else (ended_us - started_us) / 1e6
