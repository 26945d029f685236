"""The contract between a benchmark and the rest of mcp-bench.

All values that cross it are JSON, so any benchmark can run in a separate process with its own Python
(see `mcp_bench.servers.remote`). Grades are defined in `mcp_bench.servers.grading` and re-exported here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar, cast, runtime_checkable

from pydantic import Field, JsonValue, PositiveFloat

from mcp_bench.servers.base_model import Model
from mcp_bench.servers.grading import PARTIAL_CEILING, AssertionResult, Grade, Score, partial_credit

__all__ = [
    "ALL_SPLITS",
    "JSON",
    "PARTIAL_CEILING",
    "VACUOUS",
    "AssertionResult",
    "Benchmark",
    "BenchmarkDefaults",
    "ChatMessage",
    "Converses",
    "FindsInHome",
    "Grade",
    "GradesStates",
    "HasEnvironment",
    "Image",
    "Limits",
    "Model",
    "Reference",
    "Replay",
    "ReportsAssertions",
    "Score",
    "Suggests",
    "Task",
    "ToolCall",
    "ToolResult",
    "ToolSpec",
    "World",
    "WorldDefaults",
    "partial_credit",
    "with_defaults",
]

JSON = JsonValue
Replay = Literal["exact", "normalised", "none"]

VACUOUS = "vacuous"
"""Tag of a task that passes when the agent does nothing. Such tasks run only when requested by id."""

ALL_SPLITS = "all"


class Limits(Model):
    """Limits of one attempt besides `Task.max_calls` and `Task.timeout`; None uses the run's default."""

    open_seconds: PositiveFloat | None = None
    call_seconds: PositiveFloat | None = None
    """For one tool call. A call that takes longer is cancelled and returns an error to the agent."""
    grade_seconds: PositiveFloat | None = None


class Task(Model):
    """One task. The agent sees `system` and `prompt`, and nothing else."""

    id: str
    benchmark: str
    prompt: str
    split: str
    domain: str
    tags: tuple[str, ...] = ()
    max_calls: int | None = None
    timeout: float | None = None
    """Wall-clock limit for one attempt, in seconds; None uses the run's default."""
    system: str = ""
    """Instructions that many tasks share, such as a policy. The leakage check does not compare them."""
    limits: Limits = Limits()
    trainable: bool = True
    """False if nothing may be trained on the task (canary strings): `export` refuses its episodes."""
    needs: tuple[str, ...] = ()
    """What the task needs of the machine or the operator: see `mcp_bench.servers.needs`."""


class ToolSpec(Model):
    """A tool as an agent sees it. `input_schema` is a JSON Schema of type object."""

    name: str
    description: str
    input_schema: dict[str, JSON]
    checked: bool = True
    """Whether arguments that do not match the schema are refused. False: they reach the world, which judges
    them itself."""


class ToolCall(Model):
    name: str
    arguments: dict[str, JSON] = Field(default_factory=dict)


class Image(Model):
    """An image in a tool result."""

    data: str
    """The file's bytes in base64."""
    media_type: str = "image/png"


class ToolResult(Model):
    """The outcome of one call. `is_error` means that the tool refused and the world is unchanged."""

    text: str = ""
    is_error: bool = False
    structured: dict[str, JSON] | None = None
    images: tuple[Image, ...] = ()
    """What the agent sees besides the text."""
    reward: float | None = Field(default=None, allow_inf_nan=False)
    """The reward of this step. It stays on the trusted side, with the grade."""
    done: bool = False
    """The world is over: the referee ends the attempt once the agent has this result."""
    tools_changed: bool = False
    """`World.tools()` returns other tools from now on: it is read again, and the clients of a world with
    `changes_tools` are notified."""


class ChatMessage(Model):
    """A message of the conversation that `World.grade` can read."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str = ""
    calls: tuple[ToolCall, ...] = ()
    """Tool calls of an assistant."""
    name: str | None = None
    """The tool of a result."""


class Reference(Model):
    """The benchmark's own solution of a task. The oracle replays it; agents never see it."""

    calls: tuple[ToolCall, ...] = ()
    answer: str = ""
    policy: bool = False
    """There is no fixed list: the world says each next call (`Suggests`)."""


class World(Protocol):
    """The live state of one attempt. Calls on one world never overlap.

    `WorldDefaults` has its optional parts.
    """

    def tools(self) -> Sequence[ToolSpec]:
        """Return the tools. They are read when the world opens, and after a result with `tools_changed`."""
        ...

    async def call(self, name: str, arguments: dict[str, JSON]) -> ToolResult:
        """Run one tool with arguments that already match its schema, unless the tool is not `checked`.

        A long call can report progress: `mcp_bench.servers.progress.report_progress`.
        """
        ...

    async def grade(self, answer: str) -> Grade:
        """Grade the current state.

        A world whose `grade` has a second parameter, `transcript`, gets the conversation, a sequence of
        `ChatMessage`: the prompts and what the agent said come from its own transcript, calls and results
        from the recording.

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


@runtime_checkable
class Converses(Protocol):
    """Optional: a world whose user speaks again."""

    async def reply(self, said: str) -> str | None:
        """Return what the user answers to the agent's message; None: the conversation is over.

        An agent that can continue a session gets the answer as a user message. For the others, the referee
        adds the tool `reply_to_user`, which returns it. The tools of a world with `changes_tools` are read
        again after each answer.
        """
        ...


@runtime_checkable
class Suggests(Protocol):
    """Optional: a world that can say the next step of a solution. `Reference.policy` needs it.

    Only the trusted side asks, and only on worlds of its own: a reference is played on a world with the same
    seed beforehand.
    """

    async def suggest(self) -> ToolCall | str:
        """Return the next call, or the answer that ends the solution, without side effects."""
        ...


@runtime_checkable
class GradesStates(Protocol):
    """Optional: a benchmark whose grade follows from the stored final state alone.

    `regrade` then needs no replay: for worlds whose measurements cannot be repeated.
    """

    def grade_state(self, task_id: str, state: JSON) -> Grade:
        """Return the grade that a world with this `snapshot` has, without opening one.

        Raises:
            BenchError: the state does not have what the grade follows from.
        """
        ...


@runtime_checkable
class FindsInHome(Protocol):
    """Optional: a benchmark that finds something in the home of mcp-bench."""

    @property
    def variables(self) -> Mapping[str, str]:
        """Environment variables that name it for a process with another home."""
        ...


@runtime_checkable
class HasEnvironment(Protocol):
    """Optional: a benchmark with a Python environment of its own (`mcp-bench benchmarks install`)."""

    pins: Path | None
    """The list of packages that it is built from."""
    python_variable: str
    """The environment variable that names another interpreter."""

    @property
    def python(self) -> str:
        """The interpreter of now."""
        ...


class Benchmark(Protocol):
    """A named set of tasks, the tools that solve them, and a grader.

    `tasks`, `reference` and `tools` may block (they can start a worker process): call them in a
    thread from async code. An entry point in the group `mcp_bench.benchmarks` names an instance.

    `BenchmarkDefaults` has its optional parts.
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

    async def open(self, task_id: str, *, seed: int = 0) -> World:
        """Return a new world.

        An `open` with a third parameter, `host`, also gets a `mcp_bench.servers.host.Host`: with it, the
        world asks a model that the operator named to play its user, its judge or its opponent.

        Args:
            seed: what chance in the world follows from. The same task and seed are the same world.
        """
        ...

    def reference(self, task_id: str) -> Reference | None:
        """Return a solution, or None: the oracle leaves the task out."""
        ...

    def tools(self) -> Sequence[ToolSpec]:
        """Return every tool that any world can have: interactive use lists them from the start."""
        ...

    async def aclose(self) -> None:
        """Release what the benchmark holds, such as a worker process. Open worlds end with it."""
        ...


class WorldDefaults:
    """What a world can also have, and what counts where it has not; see `BenchmarkDefaults`."""

    changes_tools: bool = False
    """Whether its tools can change (`ToolResult.tools_changed`). Clients learn when they connect whether they
    will be notified."""
    grader_version: str = ""
    """Of the grade 0 that it gets if what the agent left ends the sandbox in which it is graded."""


class BenchmarkDefaults:
    """What a benchmark can also have, and what counts where it has not.

    No benchmark has to inherit from this class. Where one does, as with `SimpleBenchmark`, a type checker
    compares its parts with these.
    """

    private_splits: tuple[str, ...] = ()
    """Splits whose tasks nobody can know beforehand, because they follow from a secret of this machine. The
    tasks of all others are public: an agent may carry their solutions."""
    endless_splits: tuple[str, ...] = ()
    """Splits without an end: to list or record them takes a limit, which is then asked for at once."""
    by_hand: str | None = None
    """The name of another benchmark: what interactive use serves in place of this one. It is for benchmarks
    whose tools differ from task to task."""
    agent_inside: bool = False
    """Whether its worlds are a `ShellWorld` in whose sandbox an agent can be started, with a shell of its own
    (`--tools all`)."""
    own_files: bool = False
    """Whether its tasks come from files that the operator can change: `version` does not name them, and what
    is derived from them is never cached."""
    converses: bool = False
    """Whether its worlds' users speak again (`Converses`): interactive use then lists the tool
    `reply_to_user`."""
    licence: str = ""
    """The licence of its data."""
    install: str = ""
    """The command that installs its dependencies."""

    def missing(self) -> str | None:
        """Return in one sentence why it cannot run here, such as a package that is not installed.

        None: it can. This imports nothing heavy.
        """
        return None

    def prepare_split(self, split: str) -> str | None:
        """Make what a private split needs before its first use, and return what the user should know.

        None: nothing was made.
        """
        return None

    def describe(self, assertion: AssertionResult, final_state: JSON) -> tuple[str, str]:
        """Return what an assertion requires and, if it does not hold, what the stored snapshot has instead.

        `mcp-bench show` prints both.
        """
        return assertion.name, assertion.detail


DefaultsT = TypeVar("DefaultsT")


def with_defaults(found: object, defaults: type[DefaultsT]) -> DefaultsT:
    """Return the optional parts of a benchmark or a world: its own, or else the defaults."""
    return cast("DefaultsT", _Parts(found, defaults()))


class _Parts:
    def __init__(self, found: object, defaults: object) -> None:
        self._found, self._defaults = found, defaults

    def __getattr__(self, name: str) -> Any:
        return getattr(self._found, name, getattr(self._defaults, name))
