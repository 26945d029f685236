"""Base classes for benchmarks and worlds: they have what every plugin would repeat.

A benchmark names its splits and makes a task from an id; a world has tools and checks. Every method can be
replaced, and nothing requires these classes: any object with the methods of `Benchmark` is a benchmark.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial, wraps
from inspect import isawaitable
from itertools import chain, islice
from typing import Any, ClassVar, TypeVar, cast

from pydantic import TypeAdapter, ValidationError, validate_call

from mcp_bench.servers.contracts import (
    ALL_SPLITS,
    JSON,
    BenchmarkDefaults,
    Reference,
    Replay,
    Task,
    ToolResult,
    ToolSpec,
    World,
    WorldDefaults,
)
from mcp_bench.servers.errors import UnknownNameError
from mcp_bench.servers.grading import AssertionResult, Grade, partial_credit
from mcp_bench.servers.host import NO_HOST, Host, takes_host
from mcp_bench.servers.worlds.function_tools import function_tool

NEAR = 200
"""How many ids of a split are compared with an unknown one: a split may be endless."""

_JSON = TypeAdapter[JSON](JSON)
_SPEC = "_mcp_bench_tool"
"""The attribute of a method that is a tool."""


class SimpleBenchmark(BenchmarkDefaults, ABC):
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
    """What `all` means: those without `private_splits`."""
    default_split: str | None = None
    """What `tasks` yields if no split is named. None: `test`, or the first of `splits` if there is none."""
    toolset: Sequence[ToolSpec] = ()
    """Every tool that any of the worlds can have."""

    @abstractmethod
    def ids(self, split: str) -> Iterable[str]:
        """Return the ids of one of `splits`, in order. They are read lazily.

        Those of `train` may be endless. `dev` and `test` are read to their end: what is exported is compared
        with each of their tasks.
        """

    @abstractmethod
    def make_task(self, task_id: str) -> Task | None:
        """Return a task, or None: there is none with this id."""

    @abstractmethod
    def make_world(self, task_id: str, seed: int) -> World | Awaitable[World]:
        """Return a new world of a task that exists. The same task and seed must be the same world.

        A `make_world` with a third parameter, `host`, gets what the trusted side lends a world (`Host`). It
        can be a coroutine: a world that needs a sandbox asks for it here.
        """

    def reference(self, task_id: str) -> Reference | None:
        """Return a solution, or None: the oracle leaves the task out."""
        return None

    def tasks(self, split: str | None = None, limit: int | None = None) -> Iterator[Task]:
        named = self._default() if split is None else split
        known = (ALL_SPLITS, *self.splits, *self.private_splits)
        if named not in known:
            raise UnknownNameError("split", named, known)
        wanted = self.splits if named == ALL_SPLITS else (named,)
        ids = chain.from_iterable(self.ids(one) for one in wanted)
        return map(self.task, islice(ids, limit))

    def _default(self) -> str:
        return self.default_split or ("test" if "test" in self.splits else self.splits[0])

    def task(self, task_id: str) -> Task:
        found = self.make_task(task_id)
        if found is None:
            near = chain.from_iterable(islice(self.ids(split), NEAR) for split in self.splits)
            raise UnknownNameError("task", task_id, near, see=f"mcp-bench tasks {self.name}")
        return found

    def check_id(self, task_id: str) -> None:
        """Check that there is such a task. Replace this if making a task takes long.

        Raises:
            UnknownNameError: there is none.
        """
        self.task(task_id)

    async def open(self, task_id: str, *, seed: int = 0, host: Host = NO_HOST) -> World:
        self.check_id(task_id)
        make: Callable[..., Any] = self.make_world
        made = make(task_id, seed, host=host) if takes_host(make) else make(task_id, seed)
        world: World = await made if isawaitable(made) else made
        return world

    def tools(self) -> Sequence[ToolSpec]:
        return self.toolset

    async def aclose(self) -> None:
        """Release nothing. A subclass that holds something replaces this."""
        return None


class RefusedError(Exception):
    """A tool refuses a call: the agent reads why, and the world is unchanged."""


Method = TypeVar("Method", bound=Callable[..., Any])


def tool(method: Method) -> Method:
    """Make a method of a `SimpleWorld` a tool of this name.

    Its signature is the schema, its docstring the description (`function_tool`). It returns a text or a
    `ToolResult`, and may be a coroutine.
    """

    @validate_call  # JSON's 2.0 is an integer, too: it becomes one
    @wraps(method)
    def bound(*args: Any, **kwargs: Any) -> Callable[[], Any]:
        return partial(method, *args, **kwargs)

    @wraps(method)
    def checked(*args: Any, **kwargs: Any) -> Any:
        try:
            ready = bound(*args, **kwargs)
        except ValidationError as error:  # the schema allows more: amount=1e30 is an integer, too
            lines = (f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
            raise RefusedError("\n".join(lines)) from error
        return ready()

    setattr(checked, _SPEC, function_tool(method, hidden=("self",)))
    return cast("Method", checked)


class SimpleWorld(WorldDefaults, ABC):
    """A world of which a subclass says its tools, what a call does, and what is checked.

    A subclass marks methods with `@tool`, or sets `toolset` and implements `call`. It implements either
    `checks` or `grade`.
    """

    toolset: Sequence[ToolSpec] = ()
    _declared: ClassVar[Sequence[ToolSpec] | None] = None
    """`toolset` of a class as it was written, before marked methods joined it."""
    grader_version: str = "1"

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        declared = vars(cls).get("toolset")
        if isinstance(declared, property):
            return
        cls._declared, tools, marked = declared, {}, False
        for one in reversed(cls.__mro__):  # mixins, too; a method of a subclass replaces its parent's
            if (declared := vars(one).get("_declared")) is not None:
                tools = {spec.name: spec for spec in declared}
            own = {spec.name: spec for method in vars(one).values() if (spec := getattr(method, _SPEC, None))}
            tools, marked = tools | own, marked or bool(own)
        if marked:
            cls.toolset = tuple(tools.values())

    async def call(self, name: str, arguments: dict[str, JSON]) -> ToolResult:
        """Run one tool of `toolset`; the arguments match its schema."""
        run: Callable[..., Any] | None = getattr(self, name, None)
        if run is None or not hasattr(run, _SPEC):  # such as `grade`: a toolset can have any name
            raise NotImplementedError(f"{type(self).__name__} has no method {name} with @tool, and no call")
        try:
            made = run(**arguments)
            result = await made if isawaitable(made) else made
        except RefusedError as refusal:
            return ToolResult(text=str(refusal), is_error=True)
        return result if isinstance(result, ToolResult) else ToolResult(text=str(result))

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


def whole_numbers(arguments: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return a call's arguments with an integer for each 2.0: JSON Schema and models make no difference."""
    return {
        name: int(given) if isinstance(given, float) and given.is_integer() else given
        for name, given in arguments.items()
    }
