"""The state that all connections to one world share: the tools, their validators and one lock."""

from __future__ import annotations

import asyncio.runners
import logging
import signal
import traceback
from collections.abc import Callable, Iterable

import anyio

from mcp_bench.servers.contracts import JSON, ToolResult, ToolSpec, World, WorldDefaults, with_defaults
from mcp_bench.servers.errors import BenchError, HostError, WorkerDiedError, suggestion
from mcp_bench.servers.mcp_server.arguments import ArgumentValidator, cut
from mcp_bench.servers.mcp_server.cancellation import is_cancellation
from mcp_bench.servers.mcp_server.images import check_images
from mcp_bench.servers.mcp_server.tool_session import HasResources, Resource

logger = logging.getLogger(__name__)

CONTROL_NAMES = frozenset(
    {
        "close",
        "finish_task",
        "grade",
        "new_task",
        "next_task",
        "open",
        "regrade",
        "reset",
        "reward",
        "score",
        "snapshot",
        "start_task",
        "state",
        "step",
    }
)
"""Names for the control of an episode, as in Gymnasium and OpenEnv (`reset`, `step`, `state`, `close`). A
world's tools must not have these names. Case does not matter."""

MAX_ERROR_TEXT = 500
OVER = "The task is over. Nothing was done."


class ToolTableError(BenchError):
    """A world's tools cannot be served."""


class WorldSession:
    """Owns a world during one attempt. All calls on the world go through `call`."""

    def __init__(
        self, world: World, *, max_calls: int | None = None, call_seconds: float | None = None
    ) -> None:
        """Read the world's tools and compile their schemas.

        Args:
            max_calls: after this many calls, valid or not, further calls are refused and `limit_reached`
                is set.
            call_seconds: a call that takes longer is cancelled and returns an error (`Limits.call_seconds`).

        Raises:
            ToolTableError: a tool has a reserved name, or two tools share a name.
            ToolSchemaError: a tool's input schema is invalid.
        """
        self.world = world
        self.tools: tuple[ToolSpec, ...] = tuple(world.tools())
        """The tools of now: a result with `tools_changed` replaces them."""
        self._validators = validators(self.tools)
        self.served_resources: tuple[Resource, ...] = (
            tuple(world.served_resources) if isinstance(world, HasResources) else ()
        )
        self.changes_tools = with_defaults(world, WorldDefaults).changes_tools
        """Whether clients are notified of other tools (`ChangesTools`)."""
        self.tools_listeners: list[Callable[[], None]] = []
        self.calls = 0
        """Number of calls received, including refused ones."""
        self.rewards: list[float | None] = []
        """The reward of each call that the world executed, in the order of execution; None without one."""
        self.limit_reached = anyio.Event()
        self.over = anyio.Event()
        """Set by a result with `done`. Further calls are refused."""
        self._max_calls = max_calls
        self._call_seconds = call_seconds
        self._lock = anyio.Lock(fast_acquire=True)

    async def call(
        self, name: str, arguments: dict[str, JSON], on_execute: Callable[[], object] | None = None
    ) -> ToolResult:
        """Run one tool. Calls of all connections run one after the other.

        An invalid call returns `is_error` and does not reach the world. A tool that raises also returns
        `is_error`.

        Args:
            on_execute: called when it is the call's turn, before the world runs it.
        """
        self.calls += 1
        if self.over.is_set():
            return refusal(OVER)
        if self._max_calls is not None and self.calls > self._max_calls:
            self.limit_reached.set()
            return refusal("The limit of tool calls for this task is reached. Nothing was done.")
        if (refused := self._refused(name, arguments)) is not None:
            return refused
        table = self._validators
        async with self._lock:
            if self.over.is_set():  # while this call waited for its turn
                return refusal(OVER)
            if table is not self._validators and (refused := self._refused(name, arguments)) is not None:
                return refused
            return await self._execute(name, arguments, on_execute)

    async def call_unlisted(
        self, name: str, arguments: dict[str, JSON], on_execute: Callable[[], object] | None = None
    ) -> ToolResult:
        """Run a tool that clients do not see. Only the referee calls it: it counts towards no limit."""
        async with self._lock:
            return await self._execute(name, arguments, on_execute)

    async def _execute(
        self, name: str, arguments: dict[str, JSON], on_execute: Callable[[], object] | None
    ) -> ToolResult:
        if on_execute is not None:
            on_execute()
        self.rewards.append(None)
        try:
            result = await self._run(name, arguments)
            if not isinstance(result, ToolResult):
                raise TypeError(f"call returned {type(result).__name__}, not a ToolResult")
            self._note(result)
            check_images(result)
            return result
        except WorkerDiedError:
            # the error text contains the worker's last output, which the agent must not see
            logger.exception("tool %s: the world is gone", name)
            return refusal(f"{name} failed: the environment is not available any more.")
        except GeneratorExit:
            raise
        except HostError as error:  # not the world's own failure: the episode says why
            return refusal(f"{name} failed: {error}")
        except BaseException as error:  # a tool that calls sys.exit() must not end the run
            if is_cancellation(error) or (isinstance(error, KeyboardInterrupt) and is_signal(error)):
                raise
            logger.exception("tool %s raised", name)
            return refusal(f"{name} failed: {error_text(error)}")

    def _refused(self, name: str, arguments: dict[str, JSON]) -> ToolResult | None:
        validator = self._validators.get(name)
        if validator is None:
            name = cut(name)
            return refusal(f"There is no tool {name!r}{suggestion(name, self._validators)}.")
        if problems := validator.problems(arguments):
            return refusal(f"Bad call of {name}: {'; '.join(problems)}. Nothing was done.")
        return None

    async def _run(self, name: str, arguments: dict[str, JSON]) -> ToolResult:
        if self._call_seconds is None:
            return await self.world.call(name, arguments)
        with anyio.move_on_after(self._call_seconds):
            return await self.world.call(name, arguments)
        logger.warning("tool %s was cancelled after %g s", name, self._call_seconds)
        return refusal(
            f"{name} was cancelled: it took longer than {self._call_seconds:g} s, the limit of one call."
        )

    def _note(self, result: ToolResult) -> None:
        """Take what is not for the agent from a result."""
        self.rewards[-1] = result.reward
        if result.done:
            self.over.set()
        if result.tools_changed:
            self._read_tools()

    def _read_tools(self) -> None:
        try:
            tools = tuple(self.world.tools())
            found = validators(tools)
        except Exception:
            logger.exception("the world's new tools cannot be served: it keeps the ones before")
            return
        if tools == self.tools:
            return
        self.tools, self._validators = tools, found
        if not self.changes_tools:
            logger.warning("tools changed, and no client knows: the world lacks `changes_tools = True`")
        for listener in list(self.tools_listeners):
            listener()


def validators(tools: Iterable[ToolSpec]) -> dict[str, ArgumentValidator]:
    """Return a validator for each tool, by name.

    Raises:
        ToolTableError: a tool has a reserved name, or two tools share a name.
        ToolSchemaError: a tool's input schema is invalid.
    """
    found: dict[str, ArgumentValidator] = {}
    for tool in tools:
        refuse_control([tool])
        if tool.name in found:
            raise ToolTableError(f"two tools are named {tool.name!r}")
        found[tool.name] = ArgumentValidator(tool)
    return found


def refuse_control(tools: Iterable[ToolSpec], benchmark: str = "") -> None:
    """Reject tools whose names are reserved for the control of an episode.

    Raises:
        ToolTableError: a tool has such a name.
    """
    for tool in tools:
        if tool.name.lower() in CONTROL_NAMES:
            of = f" of benchmark {benchmark!r}" if benchmark else ""
            raise ToolTableError(
                f"tool {tool.name!r}{of} has a name that is kept for control of an episode: rename it"
            )


def refusal(text: str) -> ToolResult:
    return ToolResult(text=text, is_error=True)


def is_signal(interrupt: KeyboardInterrupt) -> bool:
    """Return whether an interrupt comes from Ctrl-C and was not raised by a tool.

    The traceback of a Ctrl-C ends in asyncio's handler. Python's own handler leaves no trace: when it is
    installed, every interrupt counts as Ctrl-C.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        return True
    frames = traceback.extract_tb(interrupt.__traceback__)
    return bool(frames) and frames[-1].filename == asyncio.runners.__file__


def error_text(error: BaseException) -> str:
    """Return class and message without a traceback; for a BenchError the message alone."""
    text = str(error) if isinstance(error, BenchError) else f"{type(error).__name__}: {error}"
    return text if len(text) <= MAX_ERROR_TEXT else f"{text[:MAX_ERROR_TEXT]}..."
