"""The contract between a benchmark and everything around it.

Whatever crosses it is JSON, so that any benchmark can run in a process and a Python of its own
(see `mcp_bench.servers.remote`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, Protocol, Self, runtime_checkable

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

JSON = JsonValue
Replay = Literal["exact", "normalised", "none"]

VACUOUS = "vacuous"
"""Tag of a task that an agent passes by doing nothing: left out unless it is asked for by its id."""

ALL_SPLITS = "all"
PARTIAL_CEILING = 0.99
"""The most partial credit an attempt gets that the benchmark itself does not call a success."""


class Model(BaseModel):
    """Base of all contract values: immutable, and unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Task(Model):
    """One thing to do. The agent is shown `prompt` and nothing else."""

    id: str
    benchmark: str
    prompt: str
    split: str
    domain: str
    tags: tuple[str, ...] = ()
    max_calls: int | None = None
    timeout: float | None = None
    """Seconds of wall clock for one attempt; None leaves it to the harness."""


class ToolSpec(Model):
    """A tool as an agent sees it. `input_schema` is a JSON Schema of type object."""

    name: str
    description: str
    input_schema: dict[str, JSON]


class ToolCall(Model):
    name: str
    arguments: dict[str, JSON] = Field(default_factory=dict)


class ToolResult(Model):
    """Outcome of one call. `is_error` means that the tool refused and the world is unchanged."""

    text: str
    is_error: bool = False
    structured: dict[str, JSON] | None = None


class Reference(Model):
    """A solution that ships with the benchmark: played by the oracle, never shown to an agent."""

    calls: tuple[ToolCall, ...] = ()
    answer: str = ""


class AssertionResult(Model):
    """One check on the final state.

    An objective is false at the start and must become true. A guardrail is true at the start and
    must stay true; it enters the denominator of partial credit only when it is broken.
    """

    name: str
    passed: bool
    kind: Literal["objective", "guardrail"] = "objective"
    detail: str = ""


class Grade(Model):
    """Verdict on a final state; `partial` is 1 exactly when `strict`, else at most 0.99."""

    partial: float = Field(ge=0, le=1)
    strict: bool
    assertions: tuple[AssertionResult, ...] = ()
    metrics: dict[str, float] = Field(default_factory=dict)
    grader_version: str

    @model_validator(mode="after")
    def _partial_is_one_exactly_when_strict(self) -> Self:
        if self.strict != (self.partial == 1.0) or (not self.strict and self.partial > PARTIAL_CEILING):
            raise ValueError(f"partial {self.partial} does not go with strict {self.strict}")
        return self


def partial_credit(assertions: Sequence[AssertionResult], *, strict: bool) -> float:
    """Return the share of scored assertions that hold, in 0..1.

    Scored are all objectives and the broken guardrails. With nothing to score (a task that expects
    no change) the answer is `strict` itself.
    """
    if strict:
        return 1.0
    scored = [a for a in assertions if a.kind == "objective" or not a.passed]
    if not any(a.kind == "objective" for a in scored):
        return 0.0
    return min(sum(a.passed for a in scored) / len(scored), PARTIAL_CEILING)


class World(Protocol):
    """The live state of one attempt. Callers never overlap two calls on one world."""

    def tools(self) -> Sequence[ToolSpec]: ...

    async def call(self, name: str, arguments: dict[str, JSON]) -> ToolResult:
        """Run one tool on arguments that already fit its schema.

        What takes long may tell how far it is: `mcp_bench.servers.progress.report_progress`.
        """
        ...

    async def grade(self, answer: str) -> Grade:
        """Judge the state as it is. `answer` is the agent's last message, used where the task
        grades text and the agent did not call `submit_answer`."""
        ...

    async def snapshot(self) -> JSON:
        """Return the state for the sealed file."""
        ...

    async def close(self) -> None: ...


@runtime_checkable
class ReportsAssertions(Protocol):
    """A world that can say after every call where its assertions stand. Optional: what is learned from single
    steps needs it. Only the trusted side asks, of worlds that it replays; no agent ever hears of it."""

    async def assertions_now(self) -> Sequence[AssertionResult] | None:
        """Return what `grade` would find now, with no effect on the world; None where it cannot tell."""
        ...


class Benchmark(Protocol):
    """A named set of tasks, the tools they are solved with, and a grader.

    `tasks`, `reference` and `tools` may block (they can start a worker process): call them in a
    thread from async code. Entry points of the group `mcp_bench.benchmarks` name an instance.
    """

    name: str
    version: str
    """Version of the data and the grader, stored with every episode."""
    summary: str
    """One line for listings."""
    replay: Replay
    """Whether the recorded calls on a fresh world give the same results."""
    replay_ignores: tuple[str, ...]
    """Names of result fields that replay leaves out of the comparison (times, random ids)."""

    def tasks(self, split: str | None = None, limit: int | None = None) -> Iterator[Task]:
        """Yield tasks lazily: of one split, of all (`"all"`), or, for None, the default set."""
        ...

    def task(self, task_id: str) -> Task:
        """Return one task, vacuous ones included.

        Raises:
            UnknownNameError: there is no such task.
        """
        ...

    async def open(self, task_id: str, *, seed: int = 0) -> World: ...

    def reference(self, task_id: str) -> Reference | None: ...

    def tools(self) -> Sequence[ToolSpec]:
        """Return every tool that a world of any task may have: what hand use lists from the start."""
        ...

    async def aclose(self) -> None:
        """End what the benchmark holds (a worker process); worlds still open die with it."""
        ...
