"""The contract between a benchmark and the rest of mcp-bench.

All values that cross it are JSON, so any benchmark can run in a separate process with its own Python
(see `mcp_bench.servers.remote`). Grades are defined in `mcp_bench.servers.grading` and re-exported here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, Protocol, runtime_checkable

from pydantic import Field, JsonValue

from mcp_bench.servers.base_model import Model
from mcp_bench.servers.grading import PARTIAL_CEILING, AssertionResult, Grade, partial_credit

__all__ = [
    "ALL_SPLITS",
    "JSON",
    "PARTIAL_CEILING",
    "VACUOUS",
    "AssertionResult",
    "Benchmark",
    "Grade",
    "Model",
    "Reference",
    "Replay",
    "ReportsAssertions",
    "Task",
    "ToolCall",
    "ToolResult",
    "ToolSpec",
    "World",
    "partial_credit",
]

JSON = JsonValue
Replay = Literal["exact", "normalised", "none"]

VACUOUS = "vacuous"
"""Tag of a task that passes when the agent does nothing. Such tasks run only when requested by id."""

ALL_SPLITS = "all"


class Task(Model):
    """One task. The agent sees `prompt` and nothing else."""

    id: str
    benchmark: str
    prompt: str
    split: str
    domain: str
    tags: tuple[str, ...] = ()
    max_calls: int | None = None
    timeout: float | None = None
    """Wall-clock limit for one attempt, in seconds; None uses the harness's default."""


class ToolSpec(Model):
    """A tool as an agent sees it. `input_schema` is a JSON Schema of type object."""

    name: str
    description: str
    input_schema: dict[str, JSON]


class ToolCall(Model):
    name: str
    arguments: dict[str, JSON] = Field(default_factory=dict)


class ToolResult(Model):
    """The outcome of one call. `is_error` means that the tool refused and the world is unchanged."""

    text: str
    is_error: bool = False
    structured: dict[str, JSON] | None = None


class Reference(Model):
    """The benchmark's own solution of a task. The oracle replays it; agents never see it."""

    calls: tuple[ToolCall, ...] = ()
    answer: str = ""


class World(Protocol):
    """The live state of one attempt. Calls on one world never overlap."""

    def tools(self) -> Sequence[ToolSpec]: ...

    async def call(self, name: str, arguments: dict[str, JSON]) -> ToolResult:
        """Run one tool with arguments that already match its schema.

        A long call can report progress: `mcp_bench.servers.progress.report_progress`.
        """
        ...

    async def grade(self, answer: str) -> Grade:
        """Grade the current state.

        Args:
            answer: the agent's last message. It counts only if the task grades text and the agent did
                not call `submit_answer`.
        """
        ...

    async def snapshot(self) -> JSON:
        """Return the state for the sealed file."""
        ...

    async def close(self) -> None: ...


@runtime_checkable
class ReportsAssertions(Protocol):
    """Optional: a world that can report after every call which assertions hold. Step labels need it.

    Only the trusted side asks, and only on worlds that it replays. Agents never see the result.
    """

    async def assertions_now(self) -> Sequence[AssertionResult] | None:
        """Return the assertions that `grade` would return now, or None if unknown, without side effects."""
        ...


class Benchmark(Protocol):
    """A named set of tasks, the tools that solve them, and a grader.

    `tasks`, `reference` and `tools` may block (they can start a worker process): call them in a
    thread from async code. An entry point in the group `mcp_bench.benchmarks` names an instance.

    A benchmark can also have an attribute `private_splits`, a tuple of names: splits whose tasks nobody
    can know beforehand, because they follow from a secret of this machine. The tasks of all others are
    public: an agent may carry their solutions. With `prepare_split(split)`, it can make what such a split
    needs before its first use; the text that is returned is shown to the user (None: nothing was made).

    A benchmark can also have an attribute `by_hand`, the name of another benchmark: what interactive use
    serves in place of this one. It is for benchmarks whose tools differ from task to task.

    And it can have a method `describe(assertion, final_state)` for `mcp-bench show`: it returns two texts,
    what the `AssertionResult` requires and, if it does not hold, what the stored snapshot has instead.
    Without it, `show` prints the assertion's name and detail.
    """

    name: str
    version: str
    """Version of the data and the grader, stored with every episode."""
    summary: str
    """One line for listings."""
    replay: Replay
    """Whether replaying the recorded calls on a fresh world gives the same results."""
    replay_ignores: tuple[str, ...]
    """Names of result fields that replay does not compare (times, random ids)."""

    def tasks(self, split: str | None = None, limit: int | None = None) -> Iterator[Task]:
        """Yield tasks lazily: those of one split, of all splits (`"all"`), or of the default set (None)."""
        ...

    def task(self, task_id: str) -> Task:
        """Return one task. Vacuous tasks are included.

        Raises:
            UnknownNameError: there is no such task.
        """
        ...

    async def open(self, task_id: str, *, seed: int = 0) -> World: ...

    def reference(self, task_id: str) -> Reference | None: ...

    def tools(self) -> Sequence[ToolSpec]:
        """Return every tool that any world can have: interactive use lists them from the start."""
        ...

    async def aclose(self) -> None:
        """Release what the benchmark holds, such as a worker process. Open worlds end with it."""
        ...
