"""Run any benchmark in a worker process. The parent never imports it."""

from __future__ import annotations

import itertools
import sys
import threading
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import anyio

from mcp_bench.servers.contracts import JSON, Reference, Replay, Task, ToolResult, ToolSpec, World
from mcp_bench.servers.errors import BenchError, MissingDependencyError
from mcp_bench.servers.grading import AssertionResult, Grade
from mcp_bench.servers.progress import current_report
from mcp_bench.servers.remote.connection import WorkerConnection
from mcp_bench.servers.remote.process import WorkerProcess

PAGE = 50
"""Tasks per request, so that iteration stays lazy."""


class RemoteBenchmark:
    """Implements the Benchmark contract through a worker process, started on first use.

    `tasks`, `task`, `reference` and `tools` block. The other methods are async and support many worlds and
    requests at once. When the worker dies, its pending requests fail with WorkerDiedError and its worlds are
    lost; the next use of the benchmark starts a new worker. The worker ends with `aclose`, with this object,
    or with this process, even if the process is killed.
    """

    def __init__(
        self,
        name: str,
        target: str,
        *,
        version: str,
        summary: str = "",
        replay: Replay = "exact",
        replay_ignores: Sequence[str] = (),
        python: str = sys.executable,
        install: str = "",
    ) -> None:
        """Describe the benchmark, without starting the worker.

        Args:
            target: the Benchmark to load in the worker: `module:attribute` or `path/to/file.py:attribute`.
            python: the worker's interpreter; this package and the benchmark's must be installed in it.
            install: command that installs the benchmark's dependencies, shown in error texts.
        """
        self.name = name
        self.version = version
        self.summary = summary
        self.replay: Replay = replay
        self.replay_ignores = tuple(replay_ignores)
        self._target = target
        self._python = python
        self.install = install
        self._world_numbers = itertools.count(1)
        self._starting = threading.Lock()
        self._connection: WorkerConnection | None = None

    @property
    def worker_pid(self) -> int | None:
        """Process id of the running worker, or None."""
        connection = self._connection
        return connection.pid if connection is not None and connection.alive else None

    def tasks(self, split: str | None = None, limit: int | None = None) -> Iterator[Task]:
        connection = self._connected()
        cursor = connection.request("tasks", split=split, limit=limit)
        try:
            while page := connection.request("page", cursor=cursor, size=PAGE):
                yield from map(Task.model_validate, page)
        finally:
            if connection.alive:
                connection.request("forget", cursor=cursor)

    def task(self, task_id: str) -> Task:
        return Task.model_validate(self._connected().request("task", task_id=task_id))

    def reference(self, task_id: str) -> Reference | None:
        found = self._connected().request("reference", task_id=task_id)
        return None if found is None else Reference.model_validate(found)

    def tools(self) -> Sequence[ToolSpec]:
        return [ToolSpec.model_validate(tool) for tool in self._connected().request("tools")]

    async def open(self, task_id: str, *, seed: int = 0) -> World:
        connection = await anyio.to_thread.run_sync(self._connected)
        number = next(self._world_numbers)
        try:
            tools = await connection.arequest("open", world=number, task_id=task_id, seed=seed)
        except anyio.get_cancelled_exc_class():
            # the world may already be open, and no one else would close it
            connection.post({"id": 0, "method": "close", "params": {"world": number}})
            raise
        return RemoteWorld(connection, number, [ToolSpec.model_validate(tool) for tool in tools])

    async def aclose(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await anyio.to_thread.run_sync(connection.close)

    def _connected(self) -> WorkerConnection:
        with self._starting:
            if self._connection is None or not self._connection.alive:
                self._connection = self._start()
            return self._connection

    def _start(self) -> WorkerConnection:
        connection = WorkerConnection(self.name, WorkerProcess(self._target, self._python))
        try:
            hello = connection.request("hello")
        except MissingDependencyError as error:
            connection.close()
            raise MissingDependencyError(f"benchmark {self.name!r}: {error}{self._advice()}") from None
        except BaseException:
            connection.close()
            raise
        theirs, ours = (hello["name"], hello["version"]), (self.name, self.version)
        if theirs != ours:
            connection.close()
            raise BenchError(
                f"the worker's Python has benchmark {theirs[0]!r} version {theirs[1]!r}, "
                f"this one expects {ours[0]!r} version {ours[1]!r}: install the same version on both sides"
            )
        weakref.finalize(self, connection.close)
        return connection

    def _advice(self) -> str:
        return f"; install it with: {self.install}" if self.install else ""


class RemoteWorld:
    """A world in the worker. Its calls run there one after the other."""

    def __init__(self, connection: WorkerConnection, number: int, tools: Sequence[ToolSpec]) -> None:
        self._connection = connection
        self._number = number
        self._tools = tuple(tools)

    def tools(self) -> Sequence[ToolSpec]:
        return self._tools

    async def call(self, name: str, arguments: dict[str, JSON]) -> ToolResult:
        result = await self._connection.arequest(
            "call", current_report(), world=self._number, name=name, arguments=arguments
        )
        return ToolResult.model_validate(result)

    async def grade(self, answer: str) -> Grade:
        return Grade.model_validate(await self._ask("grade", answer=answer))

    async def snapshot(self) -> JSON:
        state: JSON = await self._ask("snapshot")
        return state

    async def assertions_now(self) -> Sequence[AssertionResult] | None:
        found = await self._ask("assertions_now")
        return None if found is None else [AssertionResult.model_validate(one) for one in found]

    async def close(self) -> None:
        if self._connection.alive:  # a dead worker has no world left to close
            await self._ask("close")

    async def _ask(self, method: str, **params: JSON) -> Any:
        return await self._connection.arequest(method, world=self._number, **params)
