"""The open task of a client: its world, its calls, and how it ends."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial
from math import inf

import anyio

from mcp_bench.bridge.episode.attempt import Attempt
from mcp_bench.bridge.episode.ending import close
from mcp_bench.bridge.episode.episode import begin, conversation, finish, judge, seal
from mcp_bench.bridge.episode.reply_tool import conversing
from mcp_bench.bridge.interactive.run import InteractiveRun
from mcp_bench.bridge.interactive.tools import AnsweredWorld
from mcp_bench.bridge.tap.change import Change
from mcp_bench.recorder.records import PlannedEpisode, Termination, new_id
from mcp_bench.servers.contracts import JSON, ToolResult, ToolSpec, World
from mcp_bench.servers.mcp_server.world_session import WorldSession, refusal

logger = logging.getLogger(__name__)

IN_FLIGHT_SECONDS = 30.0
"""Limit for running calls once the task is over."""
CANCEL_SECONDS = 5.0
"""Limit for answering the calls that are then cancelled."""

ClientInfo = tuple[str, str]
"""Name and version that the client reports."""


class OpenTask:
    """One episode of interactive use, from opening the world to the grade."""

    def __init__(
        self,
        run: InteractiveRun,
        planned: PlannedEpisode,
        world: World,
        tools: tuple[ToolSpec, ...],
        client: ClientInfo | None,
    ) -> None:
        """Record the start of the episode.

        Args:
            tools: The tools that the client lists, without the control tools.

        Raises:
            BenchError: the world's tools cannot be served, or the recording cannot be written.
        """
        self.episode = new_id("ep")
        self.planned = planned
        self.ending = anyio.CancelScope()
        """Cancels the timer that waits for the task to run out of time."""
        self._run = run
        self._bare = world
        self._world = AnsweredWorld(conversing(world))
        self._session = WorldSession(
            self._world, max_calls=planned.max_calls, call_seconds=planned.limits.call_seconds
        )
        self._scopes: set[anyio.CancelScope] = set()
        self._connections: set[int] = set()
        self._unanswered: set[tuple[int, str | None]] = set()
        self._change = Change()
        self._opened = self._last_used = time.monotonic()
        begin(run.folder, self.episode, planned, 1, tools, client)

    def request_stored(self, connection: int, rpc_id: str | None) -> None:
        """Note that a request was stored in this episode."""
        self._connections.add(connection)
        self._unanswered.add((connection, rpc_id))

    def request_settled(self, connection: int, rpc_id: str | None) -> None:
        """Note that the answer to a request was stored, or that none will come."""
        self._unanswered.discard((connection, rpc_id))
        self._change.announce()

    async def call(self, name: str, arguments: dict[str, JSON], begins: Callable[[], None]) -> ToolResult:
        """Run a tool of the world. A call that still runs some time after the task has ended is cancelled."""
        if all(tool.name != name for tool in self._session.tools):
            return refusal(
                f"{name} does not belong to this task, and nothing was done. Use the tools that do, "
                "or call next_task for another task."
            )
        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                return await self._session.call(name, arguments, begins)
            finally:
                self._last_used = time.monotonic()
                self._scopes.discard(scope)
        return refusal(f"{name} was cut off: its task is over. Call next_task to start one.")

    async def out_of_time(self, idle: float) -> Termination:
        """Return once there was no call for `idle` seconds, or the task's own timeout has passed."""
        deadline = self._opened + (self.planned.timeout or inf)
        while True:
            now = time.monotonic()
            last_used = now if self._scopes else self._last_used
            if (left := min(last_used + idle, deadline) - now) <= 0:
                return "timeout"
            await anyio.sleep(left)

    async def end(self, termination: Termination) -> None:
        """Let running calls finish, grade, and close the world. The caller must not admit further calls.

        Raises:
            StorageError: the recording cannot be written.
        """
        await self._drain()
        attempt = Attempt(termination=termination)
        if self._session.limit_reached.is_set():
            attempt.termination = "max_calls"
        attempt.seen.connections = len(self._connections)
        attempt.transcript.answer = self._world.answer
        try:
            said = partial(conversation, self._run.folder, self.episode, self.planned, attempt)
            verdict = await judge(self._bare, attempt, self.planned, said)
            finish(self._run.folder, self.episode, self.planned, attempt)
            if verdict is not None:
                seal(self._run.folder, self.episode, *verdict, self._session.rewards)
        finally:
            await close(self._world)
        fault = f", invalid: {attempt.invalid}" if attempt.invalid else ""
        logger.info("task %s is over and stored as %s%s", self.planned.task, self.episode, fault)

    async def _drain(self) -> None:
        with anyio.move_on_after(IN_FLIGHT_SECONDS):
            await self._all_answered()
        for scope in self._scopes:
            scope.cancel()
        with anyio.move_on_after(CANCEL_SECONDS):  # a world may ignore cancellation
            await self._all_answered()

    async def _all_answered(self) -> None:
        while self._unanswered:
            await self._change.wait()
