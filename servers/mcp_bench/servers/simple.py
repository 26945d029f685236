"""Base classes for benchmarks and worlds: they have what every plugin would repeat.

A benchmark names its splits and makes a task from an id; a world has tools and checks. Every method can be
replaced, and nothing requires these classes: any object with the methods of `Benchmark` is a benchmark.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

from pydantic import TypeAdapter, ValidationError

from mcp_bench.servers.contracts import ALL_SPLITS, JSON, Reference, Replay, Task, ToolResult, ToolSpec, World
from mcp_bench.servers.errors import UnknownNameError
from mcp_bench.servers.grading import AssertionResult, Grade, partial_credit

NEAR = 200
"""How many ids of a split are compared with an unknown one: a split may be endless."""

_JSON = TypeAdapter[JSON](JSON)


class SimpleBenchmark(ABC):
    """A benchmark of which a subclass says its names, ids, tasks and worlds.

    A subclass sets `name`, `summary` and `toolset`, and implements `ids`, `make_task` and `make_world`;
    `reference` too, unless it has no solutions.
    """

    name: str
    version: str = "1"
    summary: str = ""
    replay: Replay = "exact"
    replay_ignores: tuple[str, ...] = ()
    splits: tuple[str, ...] = ("train", "dev", "test")
    default_split: str = "test"
    """What `tasks` yields if no split is named."""
    toolset: Sequence[ToolSpec] = ()
    """Every tool that any of the worlds can have."""

    @abstractmethod
    def ids(self, split: str) -> Iterable[str]:
        """Return the ids of one of `splits`, in order. They are read lazily, and may be endless."""

    @abstractmethod
    def make_task(self, task_id: str) -> Task | None:
        """Return a task, or None: there is none with this id."""

    @abstractmethod
    def make_world(self, task_id: str, seed: int) -> World:
        """Return a new world of a task that exists. The same task and seed must be the same world."""

    def reference(self, task_id: str) -> Reference | None:
        """Return a solution, or None: the oracle leaves the task out."""
        return None

    def tasks(self, split: str | None = None, limit: int | None = None) -> Iterator[Task]:
        named = self.default_split if split is None else split
        if named not in (ALL_SPLITS, *self.splits):
            raise UnknownNameError("split", named, [ALL_SPLITS, *self.splits])
        wanted = self.splits if named == ALL_SPLITS else (named,)
        ids = chain.from_iterable(self.ids(one) for one in wanted)
        return map(self.task, islice(ids, limit))

    def task(self, task_id: str) -> Task:
        found = self.make_task(task_id)
        if found is None:
            near = chain.from_iterable(islice(self.ids(split), NEAR) for split in self.splits)
            raise UnknownNameError("task", task_id, near)
        return found

    async def open(self, task_id: str, *, seed: int = 0) -> World:
        self.task(task_id)
        return self.make_world(task_id, seed)

    def tools(self) -> Sequence[ToolSpec]:
        return self.toolset

    async def aclose(self) -> None:
        """Release nothing. A subclass that holds something replaces this."""
        return None


class SimpleWorld(ABC):
    """A world of which a subclass says its tools, what a call does, and what is checked.

    A subclass sets `toolset` and implements `call`, and either `checks` or `grade`.
    """

    toolset: Sequence[ToolSpec] = ()
    grader_version: str = "1"

    @abstractmethod
    async def call(self, name: str, arguments: dict[str, JSON]) -> ToolResult:
        """Run one tool of `toolset`; the arguments match its schema."""

    def checks(self, answer: str) -> Iterable[AssertionResult]:
        """Return what holds in the current state, without side effects. The grade follows from it.

        Args:
            answer: the agent's last message; empty while the agent is still at work.
        """
        raise NotImplementedError(f"{type(self).__name__} has neither checks nor a grade of its own")

    def tools(self) -> Sequence[ToolSpec]:
        return self.toolset

    async def grade(self, answer: str) -> Grade:
        """Return strict success if all checks pass, and otherwise the share of them (`partial_credit`)."""
        checks = tuple(self.checks(answer))
        strict = all(check.passed for check in checks)
        credit = partial_credit(checks, strict=strict)
        return Grade(partial=credit, strict=strict, assertions=checks, grader_version=self.grader_version)

    async def assertions_now(self) -> Sequence[AssertionResult] | None:
        """Return the checks without an answer; a world with a `grade` of its own reports nothing."""
        return None if type(self).checks is SimpleWorld.checks else tuple(self.checks(""))

    async def snapshot(self) -> JSON:
        """Return the public attributes whose values are JSON."""
        return {
            name: value for name, value in vars(self).items() if not name.startswith("_") and is_json(value)
        }

    async def close(self) -> None:
        """Release nothing. A subclass that holds something replaces this."""
        return None


def is_json(value: object) -> bool:
    """Return whether a value is JSON as it stands."""
    try:
        _JSON.validate_python(value, strict=True)
    except ValidationError:
        return False
    return True
