"""One client's entry: a list of tools that never changes, and at most one open task.

State belongs to the entry, not to a connection: several connections may share it, and clients of
2026-07-28 have none.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress

import anyio
from anyio.abc import TaskGroup
from mcp_types import RequestId

from mcp_bench.bridge.episode.attempt import Attempt, error_text
from mcp_bench.bridge.episode.episode import begin, close, finish
from mcp_bench.bridge.interactive.answer_tool import with_answer
from mcp_bench.bridge.interactive.control_tools import CONTROL, FINISH_TASK, NEXT_TASK, NEXT_TASK_PROMPT
from mcp_bench.bridge.interactive.open_task import Client, OpenTask
from mcp_bench.bridge.interactive.run import HandRun
from mcp_bench.bridge.interactive.task_queue import TaskQueue
from mcp_bench.recorder.errors import StorageError
from mcp_bench.recorder.records import PlannedEpisode, Termination, new_id
from mcp_bench.servers.contracts import JSON, Task, ToolResult, ToolSpec
from mcp_bench.servers.errors import BenchError, UnknownNameError
from mcp_bench.servers.tool_session import PromptSpec
from mcp_bench.servers.world_session import ToolTableError, refusal

logger = logging.getLogger(__name__)

NO_TASK = "No task is open. Call next_task to start one."


class Entry:
    """Opens and ends tasks. The task group runs until every entry is closed."""

    def __init__(
        self,
        run: HandRun,
        tools: Sequence[ToolSpec],
        queue: TaskQueue,
        tasks: TaskGroup,
        *,
        name: str = "-",
        seed: int = 0,
        idle: float,
    ) -> None:
        """`tools` is the benchmark's whole set; `idle` the seconds without a call that end a task.

        Raises:
            ToolTableError: a tool's name is one of ours.
        """
        if taken := CONTROL & {tool.name for tool in tools}:
            raise ToolTableError(f"the benchmark has a tool named {min(taken)!r}, which hand use needs")
        self.run = run
        self.name = name
        self.task_tools = with_answer(tools)
        self.tools = (NEXT_TASK, FINISH_TASK, *self.task_tools)
        self.done = 0
        """Tasks that were ended."""
        self.client: Client | None = None
        """Who opened a task last."""
        self._queue = queue
        self._tasks = tasks
        self._seed = seed
        self._idle = idle
        self._names = frozenset(tool.name for tool in self.task_tools)
        self._task: OpenTask | None = None
        self._turn = anyio.Lock()
        self._closed = False

    @property
    def task(self) -> OpenTask | None:
        """The open task."""
        return self._task

    async def next_task(self, client: Client | None) -> str:
        """End the open task, start the next one, and return its prompt.

        Raises:
            BenchError: there is none left, or it cannot be started.
        """
        async with self._turn:
            await self._end("agent_exit")
            if self._closed:
                raise BenchError("The server is ending.")
            task = await self._queue.take()
            if task is None:
                raise BenchError("There are no more tasks.")
            self.client = client
            self._task = opened = await self._start(task, client)
            self._tasks.start_soon(self._watch, opened)
            return task.prompt

    async def finish_task(self) -> str:
        """End the open task; return what the agent is told: nothing of how well it was done.

        Raises:
            BenchError: no task is open.
        """
        async with self._turn:
            if self._task is None:
                raise BenchError(NO_TASK)
            await self._end("agent_exit")
        after = "Call next_task for the next one." if self._queue.has_more else "It was the last one."
        return f"The task is over and stored. {after}"

    async def end_task(self, termination: Termination, only: OpenTask | None = None) -> None:
        """End the task that is open, if any; with `only`, not a later one."""
        with anyio.CancelScope(shield=True):
            async with self._turn:
                if only is None or only is self._task:
                    await self._end(termination)

    async def close(self, termination: Termination) -> None:
        """End what is open; no task is started any more."""
        self._closed = True
        await self.end_task(termination)

    async def _start(self, task: Task, client: Client | None) -> OpenTask:
        planned = self.run.plan(task, self._seed)
        try:
            world = await self.run.benchmark.open(task.id, seed=self._seed)
        except Exception as error:  # a benchmark's own code
            logger.exception("task %s cannot be opened", task.id)
            self._store_failure(planned, client, error)
            raise BenchError("The task cannot be opened. Call next_task for another one.") from error
        try:
            return OpenTask(self.run, planned, world, self.task_tools, client)
        except BaseException:
            await close(world)
            raise

    def _store_failure(self, planned: PlannedEpisode, client: Client | None, error: Exception) -> None:
        attempt, episode = Attempt(), new_id("ep")
        attempt.invalidate("world_failed", error_text(error))
        begin(self.run.folder, episode, planned, 1, self.task_tools, client)
        finish(self.run.folder, episode, planned, attempt)

    async def _end(self, termination: Termination) -> None:
        # detached first: from here on no call finds it
        task, self._task = self._task, None
        if task is not None:
            task.ending.cancel()
            try:
                with anyio.CancelScope(shield=True):
                    await task.end(termination)
            except StorageError as error:  # the text names files, which are not for the agent
                logger.exception("task %s could not be stored", task.planned.task)
                raise BenchError("The task is over, but it could not be stored.") from error
            self.done += 1

    async def _watch(self, task: OpenTask) -> None:
        with task.ending, suppress(BenchError):
            termination = await task.out_of_time(self._idle)
            await self.end_task(termination, task)


class EntrySession:
    """An entry as one connection, or one request, uses it: the tools and prompts that are served."""

    prompts: Sequence[PromptSpec] = (NEXT_TASK_PROMPT,)

    def __init__(
        self,
        entry: Entry,
        connection: int,
        client: Callable[[], Client | None],
        *,
        request: RequestId | None = None,
    ) -> None:
        """`connection` is its number in the recording; `request` the one request it is for, if so."""
        self._entry = entry
        self._connection = connection
        self._client = client
        self._request = request
        self._executing: OpenTask | None = None
        self.tools = entry.tools

    async def call(
        self, name: str, arguments: dict[str, JSON], on_execute: Callable[[], None] | None = None
    ) -> ToolResult:
        """Run a tool of the open task's world, or go from task to task."""
        try:
            if name == NEXT_TASK.name:
                return ToolResult(text=await self._entry.next_task(self._client()))
            if name == FINISH_TASK.name:
                return ToolResult(text=await self._entry.finish_task())
        except BenchError as error:
            return refusal(str(error))
        task = self._entry.task
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
        """The server's `on_execute`.

        Raises:
            NotOfThisTaskError: the call came in when another task was open, or none.
        """
        task = self._executing
        assert task is not None  # noqa: S101 - `call` has just set it
        recording = self._entry.run.recording
        if not recording.mark_executed(task.episode, self._connection, rpc_id):
            raise NotOfThisTaskError

    async def prompt(self, name: str) -> str:
        """Start the next task and return its prompt.

        Raises:
            UnknownNameError: there is no such prompt.
            BenchError: there is no task left, or it cannot be started.
        """
        if name != NEXT_TASK_PROMPT.name:
            raise UnknownNameError("prompt", name, [NEXT_TASK_PROMPT.name])
        return await self._entry.next_task(self._client())


class NotOfThisTaskError(Exception):
    """A call is not part of the task that it was about to run in."""
