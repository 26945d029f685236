"""One client: a list of tools that never changes, and at most one open task.

A client outlives its connections: several connections may share it, and protocol version 2026-07-28 has no
connections at all.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress

import anyio
from anyio.abc import TaskGroup
from mcp_types import RequestId

from mcp_bench.bridge.episode.attempt import Attempt, error_text
from mcp_bench.bridge.episode.ending import close
from mcp_bench.bridge.episode.episode import begin, finish
from mcp_bench.bridge.episode.plan import full_prompt
from mcp_bench.bridge.episode.reply_tool import REPLY_TO_USER, instructed
from mcp_bench.bridge.interactive.open_task import ClientInfo, OpenTask
from mcp_bench.bridge.interactive.run import InteractiveRun, TaskQueue
from mcp_bench.bridge.interactive.tools import CONTROL, FINISH_TASK, NEXT_TASK, NEXT_TASK_PROMPT, with_answer
from mcp_bench.recorder.errors import StorageError
from mcp_bench.recorder.records import PlannedEpisode, Termination, new_id
from mcp_bench.servers.contracts import JSON, BenchmarkDefaults, Task, ToolResult, ToolSpec, with_defaults
from mcp_bench.servers.errors import BenchError, UnknownNameError
from mcp_bench.servers.host import NoHost, open_world
from mcp_bench.servers.mcp_server.cancellation import is_own_failure
from mcp_bench.servers.mcp_server.tool_session import PromptSpec
from mcp_bench.servers.mcp_server.world_session import ToolTableError, refusal
from mcp_bench.servers.needs import SANDBOX, needed_role

logger = logging.getLogger(__name__)

NOT_LENT = "the task needs {}. Interactive use has none: take `mcp-bench record`"
NO_TASK = "No task is open. Call next_task to start one."


class Client:
    """Open and end the tasks of one client.

    The task group must run until the client is closed.
    """

    def __init__(
        self,
        run: InteractiveRun,
        tools: Sequence[ToolSpec],
        queue: TaskQueue,
        tasks: TaskGroup,
        *,
        name: str = "-",
        seed: int = 0,
        idle: float,
    ) -> None:
        """Create a client without an open task.

        Args:
            tools: All tools of the benchmark.
            idle: Seconds without a call after which an open task ends.

        Raises:
            ToolTableError: a tool has the name of a control tool.
        """
        if taken := CONTROL & {tool.name for tool in tools}:
            raise ToolTableError(
                f"the benchmark has a tool named {min(taken)!r}, which interactive use needs"
            )
        self.run = run
        self.name = name
        replies = (REPLY_TO_USER,) if with_defaults(run.benchmark, BenchmarkDefaults).converses else ()
        self.task_tools = with_answer([*tools, *replies])
        self.tools = (NEXT_TASK, FINISH_TASK, *self.task_tools)
        self.done = 0
        """Number of tasks that have ended."""
        self.info: ClientInfo | None = None
        """Name and version of the client that opened a task last."""
        self._queue = queue
        self._tasks = tasks
        self._seed = seed
        self._idle = idle
        self._names = frozenset(tool.name for tool in self.task_tools)
        self._task: OpenTask | None = None
        self._lock = anyio.Lock()
        self._closed = False

    @property
    def task(self) -> OpenTask | None:
        """The open task."""
        return self._task

    async def next_task(self, info: ClientInfo | None) -> str:
        """End the open task, start the next one, and return its prompt.

        Raises:
            BenchError: no task is left, or the next one cannot be started.
        """
        async with self._lock:
            await self._end("agent_exit")
            if self._closed:
                raise BenchError("The server is ending.")
            task = await self._queue.take()
            if task is None:
                raise BenchError("There are no more tasks.")
            self.info = info
            try:
                self._task = opened = await self._start(task, info)
            except anyio.get_cancelled_exc_class():
                self._queue.put_back(task)  # the request was cancelled, and nobody has seen the task
                raise
            self._tasks.start_soon(self._watch, opened)
            return full_prompt(opened.planned)

    async def finish_task(self) -> str:
        """End the open task. Return a text for the agent that reveals nothing about the grade.

        Raises:
            BenchError: no task is open.
        """
        async with self._lock:
            if self._task is None:
                raise BenchError(NO_TASK)
            await self._end("agent_exit")
        after = "Call next_task for the next one." if self._queue.has_more else "It was the last one."
        return f"The task is over and stored. {after}"

    async def end_task(self, termination: Termination, only: OpenTask | None = None) -> None:
        """End the open task, if any. With `only`, end it only if it is this task."""
        with anyio.CancelScope(shield=True):
            async with self._lock:
                if only is None or only is self._task:
                    await self._end(termination)

    async def close(self, termination: Termination) -> None:
        """End the open task and refuse to start another one."""
        self._closed = True
        await self.end_task(termination)

    async def _start(self, task: Task, info: ClientInfo | None) -> OpenTask:
        try:
            if any(needed_role(need) for need in task.needs):
                raise BenchError(NOT_LENT.format("a model that plays a role in its world"))
            if SANDBOX in task.needs:
                raise BenchError(NOT_LENT.format("a sandbox"))
            world = await open_world(
                self.run.benchmark, task.id, seed=self._seed, host=NoHost("interactive use has none")
            )
        except BaseException as error:  # raised by the benchmark's code
            if not is_own_failure(error):
                raise
            logger.exception("task %s cannot be opened", task.id)
            self._store_failure(self.run.plan(task, self._seed), info, error)
            raise BenchError("The task cannot be opened. Call next_task for another one.") from error
        try:
            planned = instructed(self.run.plan(task, self._seed), world)
            return OpenTask(self.run, planned, world, self.task_tools, info)
        except BaseException:
            await close(world)
            raise

    def _store_failure(self, planned: PlannedEpisode, info: ClientInfo | None, error: BaseException) -> None:
        attempt, episode = Attempt(), new_id("ep")
        attempt.invalidate("world_failed", error_text(error))
        begin(self.run.folder, episode, planned, 1, self.task_tools, info)
        finish(self.run.folder, episode, planned, attempt)

    async def _end(self, termination: Termination) -> None:
        # detach it first: from here on, no call can reach it
        task, self._task = self._task, None
        if task is not None:
            task.ending.cancel()
            try:
                with anyio.CancelScope(shield=True):
                    await task.end(termination)
            except StorageError as error:  # its message names files, which the agent must not see
                logger.exception("task %s could not be stored", task.planned.task)
                raise BenchError("The task is over, but it could not be stored.") from error
            self.done += 1

    async def _watch(self, task: OpenTask) -> None:
        with task.ending, suppress(BenchError):
            termination = await task.out_of_time(self._idle)
            await self.end_task(termination, task)


class ClientTools:
    """The tools and prompts of a client, as one connection or one request sees them."""

    prompts: Sequence[PromptSpec] = (NEXT_TASK_PROMPT,)

    def __init__(
        self,
        client: Client,
        connection: int,
        info: Callable[[], ClientInfo | None],
        *,
        request: RequestId | None = None,
    ) -> None:
        """Serve one connection, or one request.

        Args:
            client: The client that the connection belongs to.
            connection: Its number in the recording.
            info: Returns the client's name and version, or None while they are unknown.
            request: Id of the request, if this object serves only one.
        """
        self._client = client
        self._connection = connection
        self._read_info = info
        self._request = request
        self._executing: OpenTask | None = None
        self.tools = client.tools

    async def call(
        self, name: str, arguments: dict[str, JSON], on_execute: Callable[[], None] | None = None
    ) -> ToolResult:
        """Run a control tool, or a tool of the open task's world."""
        try:
            if name == NEXT_TASK.name:
                return ToolResult(text=await self._client.next_task(self._read_info()))
            if name == FINISH_TASK.name:
                return ToolResult(text=await self._client.finish_task())
        except BenchError as error:
            return refusal(str(error))
        task = self._client.task
        if task is None:
            return refusal(NO_TASK)

        def begins() -> None:
            self._executing = task
            if self._request is not None:
                self.executes(self._request)
            elif on_execute is not None:
                on_execute()

        try:
            return await task.call(name, arguments, begins)
        except NotOfThisTaskError:
            return refusal(f"{name} was called before the task had started, and nothing was done.")

    def executes(self, rpc_id: RequestId) -> None:
        """Record that a call starts to run. The server calls this as `on_execute`.

        Raises:
            NotOfThisTaskError: the call arrived while another task was open, or none.
        """
        task = self._executing
        assert task is not None  # noqa: S101 - set by `call` just before
        recording = self._client.run.recording
        if not recording.mark_executed(task.episode, self._connection, rpc_id):
            raise NotOfThisTaskError

    async def prompt(self, name: str) -> str:
        """Start the next task and return its prompt.

        Raises:
            UnknownNameError: there is no such prompt.
            BenchError: no task is left, or the next one cannot be started.
        """
        if name != NEXT_TASK_PROMPT.name:
            raise UnknownNameError("prompt", name, [NEXT_TASK_PROMPT.name])
        return await self._client.next_task(self._read_info())


class NotOfThisTaskError(Exception):
    """A call does not belong to the task in which it was about to run."""
