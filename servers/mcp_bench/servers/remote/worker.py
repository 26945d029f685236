"""The worker process of a benchmark: `python -s -P -m mcp_bench.servers.remote.worker TARGET FD`.

It answers requests on the inherited socket FD and ends when the socket closes, even if its parent was killed.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import json
import logging
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any

import anyio
from anyio.abc import SocketStream, TaskGroup

from mcp_bench.servers.contracts import (
    JSON,
    Benchmark,
    ChatMessage,
    Converses,
    Grade,
    GradesStates,
    ReportsAssertions,
    Suggests,
    Task,
    ToolSpec,
    World,
    WorldDefaults,
    with_defaults,
)
from mcp_bench.servers.errors import BenchError
from mcp_bench.servers.grading_call import grade_world, reads_transcript
from mcp_bench.servers.hardening import harden
from mcp_bench.servers.host import open_world
from mcp_bench.servers.mcp_server.cancellation import is_cancellation
from mcp_bench.servers.mcp_server.lines import read_lines
from mcp_bench.servers.progress import reporting_to
from mcp_bench.servers.remote.failures import to_wire
from mcp_bench.servers.remote.host import Questions, WorkerHost
from mcp_bench.servers.remote.target import load_target
from mcp_bench.servers.worlds.simple import SimpleWorld

logger = logging.getLogger(__name__)

OPTIONAL = ("assertions_now", "reply", "suggest")
"""Methods that a world may have."""

UNANSWERED = 0
"""The number of requests whose answers nobody reads: none is sent."""
MOST_TOOLSETS = 64
"""Sets of tools that are known by their number."""

FAREWELL_SECONDS = 3.0
"""Time for the benchmark to close its resources once the parent is gone."""


class Worker:
    """Answers requests. Each runs in its own task; requests on one world run one after the other."""

    def __init__(self, target: str, stream: SocketStream) -> None:
        self._target = target
        self._stream = stream
        self._benchmark: Benchmark | None = None
        self._worlds: dict[int, tuple[World, anyio.Lock]] = {}
        self._cursors: dict[int, Iterator[Task]] = {}
        self._toolsets: dict[tuple[str, ...], tuple[int, tuple[ToolSpec, ...]]] = {}
        self._numbers = itertools.count(1)
        self._scopes: dict[int, anyio.CancelScope] = {}
        self._sending = anyio.Lock(fast_acquire=True)
        self._questions = Questions(self._send)
        self._one_thread = anyio.CapacityLimiter(1)  # benchmarks need not be thread-safe
        self._methods: dict[str, Callable[..., Awaitable[JSON]]] = {
            "hello": self.hello,
            "tasks": self.tasks,
            "page": self.page,
            "forget": self.forget,
            "task": self.task,
            "reference": self.reference,
            "tools": self.tools,
            "tools_of": self.tools_of,
            "grade_state": self.grade_state,
            "open": self.open,
            "call": self.call,
            "grade": self.grade,
            "snapshot": self.snapshot,
            "assertions_now": self.assertions_now,
            "reply": self.reply,
            "suggest": self.suggest,
            "close": self.close,
        }

    async def run(self) -> None:
        """Answer requests until the parent closes its end, then close the benchmark."""
        async with anyio.create_task_group() as tasks:
            async for line in read_lines(self._stream):
                self._begin(tasks, json.loads(line))
            tasks.cancel_scope.cancel()
        if self._benchmark is not None:
            await self._benchmark.aclose()

    def _begin(self, tasks: TaskGroup, message: dict[str, Any]) -> None:
        if "ask" in message:
            self._questions.settle(message)
            return
        if "cancel" in message:
            if scope := self._scopes.get(message["cancel"]):
                scope.cancel()
            return
        scope = self._scopes[message["id"]] = anyio.CancelScope()
        tasks.start_soon(self._answer, message, scope)

    async def _answer(self, message: dict[str, Any], scope: anyio.CancelScope) -> None:
        number, method, params = message["id"], message["method"], message["params"]
        wanted = message.get("progress", False)  # set only for calls whose client wants progress
        report = partial(self._report, number) if wanted else None
        with scope, reporting_to(report), self._questions.during(number):
            try:
                line = in_json(number, method, await self._methods[method](**params))
            except GeneratorExit:
                raise
            except BaseException as error:  # ends the request, not the worker
                if is_cancellation(error):
                    raise
                if not isinstance(error, BenchError):
                    logger.exception("%s failed", method)
                line = encoded({"id": number, "error": to_wire(error)})
        self._scopes.pop(number, None)
        if scope.cancelled_caught or number == UNANSWERED:
            return  # the parent does not wait for the answer
        await self._send_line(line)

    async def _report(self, number: int, done: float, total: float | None, text: str | None) -> None:
        await self._send({"id": number, "progress": [done, total, text]})

    async def _send(self, message: dict[str, JSON]) -> None:
        await self._send_line(encoded(message))

    async def _send_line(self, data: bytes) -> None:
        async with self._sending:
            # if the parent is gone, the reading side ends this process
            with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                await self._stream.send(data)

    @property
    def benchmark(self) -> Benchmark:
        if self._benchmark is None:
            self._benchmark = load_target(self._target)
        return self._benchmark

    async def _in_thread(self, function: Callable[[], Any]) -> Any:
        return await anyio.to_thread.run_sync(function, limiter=self._one_thread)

    async def hello(self) -> JSON:
        await self._in_thread(lambda: self.benchmark)
        return {"name": self.benchmark.name, "version": self.benchmark.version}

    async def tasks(self, split: str | None, limit: int | None) -> JSON:
        cursor = next(self._numbers)
        self._cursors[cursor] = await self._in_thread(lambda: self.benchmark.tasks(split, limit))
        return cursor

    async def page(self, cursor: int, size: int) -> JSON:
        found: list[Task] = await self._in_thread(lambda: self._next_tasks(cursor, size))
        return [task.model_dump(mode="json") for task in found]

    def _next_tasks(self, cursor: int, size: int) -> list[Task]:
        """Return up to `size` tasks. Those before a failure are not lost: the next page raises it."""
        found: list[Task] = []
        try:
            for task in islice(self._cursors[cursor], size):
                found.append(task)  # noqa: PERF402 - one by one: a failure must not lose them
        except Exception as error:
            if not found:
                raise
            self._cursors[cursor] = failing(error)
        return found

    async def forget(self, cursor: int) -> JSON:
        self._cursors.pop(cursor, None)
        return None

    async def task(self, task_id: str) -> JSON:
        found: Task = await self._in_thread(lambda: self.benchmark.task(task_id))
        return found.model_dump(mode="json")

    async def reference(self, task_id: str) -> JSON:
        found = await self._in_thread(lambda: self.benchmark.reference(task_id))
        dumped: JSON = None if found is None else found.model_dump(mode="json")
        return dumped

    async def tools(self) -> JSON:
        return dumped(await self._in_thread(lambda: self.benchmark.tools()))

    async def grade_state(self, task_id: str, state: JSON) -> JSON:
        benchmark = self.benchmark
        assert isinstance(benchmark, GradesStates)  # noqa: S101 - the parent's class says so
        found: Grade = await self._in_thread(lambda: benchmark.grade_state(task_id, state))
        return found.model_dump(mode="json")

    async def open(self, world: int, task_id: str, seed: int) -> JSON:
        opened = await open_world(self.benchmark, task_id, seed=seed, host=WorkerHost(self._questions))
        self._worlds[world] = opened, anyio.Lock(fast_acquire=True)  # so that it can be closed from now on
        answer = self._listed(opened.tools())
        return answer | {
            "methods": [method for method in OPTIONAL if hasattr(opened, method)],
            "changes_tools": with_defaults(opened, WorldDefaults).changes_tools,
            "reads_transcript": reads_transcript(opened),
            "closes": getattr(type(opened), "close", None) is not SimpleWorld.close,
        }

    def _listed(self, tools: Sequence[ToolSpec]) -> dict[str, JSON]:
        """Return the number of a set of tools, and the tools if they are new.

        Worlds share their tools, and writing and reading some dozens takes longer than opening many a world.
        """
        names, found = tuple(tool.name for tool in tools), tuple(tools)
        if (known := self._toolsets.get(names)) is not None and known[1] == found:
            return {"toolset": known[0]}
        if len(self._toolsets) >= MOST_TOOLSETS:  # worlds that make new ones each time
            self._toolsets.clear()
        number = next(self._numbers)
        self._toolsets[names] = number, found
        return {"toolset": number, "tools": dumped(tools)}

    async def tools_of(self, world: int) -> JSON:
        found, _ = self._worlds[world]
        return dumped(found.tools())

    async def call(self, world: int, name: str, arguments: dict[str, JSON]) -> JSON:
        found, lock = self._worlds[world]
        async with lock:
            result = await found.call(name, arguments)
            answer: dict[str, JSON] = {"result": result.model_dump(mode="json", exclude_defaults=True)}
            if result.tools_changed:
                try:
                    answer["tools"] = dumped(found.tools())
                except Exception:  # the call was executed all the same
                    logger.exception("the new tools of the world: it keeps the ones before")
        return answer

    async def grade(self, world: int, answer: str, transcript: list[dict[str, Any]]) -> JSON:
        found, lock = self._worlds[world]
        said = [ChatMessage.model_validate(message) for message in transcript]
        async with lock:
            return (await grade_world(found, answer, said)).model_dump(mode="json")

    async def snapshot(self, world: int) -> JSON:
        found, lock = self._worlds[world]
        async with lock:
            return await found.snapshot()

    async def assertions_now(self, world: int) -> JSON:
        found, lock = self._worlds[world]
        assert isinstance(found, ReportsAssertions)  # noqa: S101 - the parent knows it since `open`
        async with lock:
            standing = await found.assertions_now()
        return None if standing is None else [one.model_dump(mode="json") for one in standing]

    async def reply(self, world: int, said: str) -> JSON:
        found, lock = self._worlds[world]
        assert isinstance(found, Converses)  # noqa: S101 - as above
        async with lock:
            answer: dict[str, JSON] = {"said": await found.reply(said)}
            if with_defaults(found, WorldDefaults).changes_tools:
                answer["tools"] = dumped(found.tools())
        return answer

    async def suggest(self, world: int) -> JSON:
        found, lock = self._worlds[world]
        assert isinstance(found, Suggests)  # noqa: S101 - as above
        async with lock:
            step = await found.suggest()
        return step if isinstance(step, str) else step.model_dump(mode="json")

    async def close(self, world: int) -> JSON:
        if world in self._worlds:
            found, lock = self._worlds[world]
            async with lock:
                self._worlds.pop(world, None)
                await found.close()
        return None


def encoded(message: dict[str, JSON]) -> bytes:
    return json.dumps(message).encode() + b"\n"


def in_json(number: int, method: str, result: JSON) -> bytes:
    """Return the line that answers a request.

    Raises:
        TypeError: the result is not JSON.
    """
    try:
        return encoded({"id": number, "result": result})
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"{method} returned what is not JSON: {error}") from error


def dumped(tools: Iterable[ToolSpec]) -> list[JSON]:
    return [tool.model_dump(mode="json") for tool in tools]


def failing(error: Exception) -> Iterator[Task]:
    """Raise an error when the next task is wanted."""
    raise error
    yield


def end_with_parent(ours: socket.socket) -> None:
    """Exit `FAREWELL_SECONDS` after the parent is gone, even if the benchmark's code never yields."""
    wait_for_end(ours)
    time.sleep(FAREWELL_SECONDS)
    end_session()
    os._exit(0)


def wait_for_end(ours: socket.socket, seconds: float | None = None) -> bool:
    """Return whether the parent has closed its end, after waiting for it."""
    poll = select.poll()
    poll.register(ours, select.POLLRDHUP)
    return bool(poll.poll(None if seconds is None else seconds * 1000))


def end_session() -> None:
    """Kill this process and what the benchmark has started. The parent does it otherwise."""
    if os.getsid(0) == os.getpgid(0) == os.getpid():
        for output in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                output.flush()
        os.killpg(0, signal.SIGKILL)


def end_session_after(ours: socket.socket) -> None:
    """End the session when the interpreter ends, if the parent is gone."""
    if wait_for_end(ours, 0):
        end_session()


async def run(target: str, ours: socket.socket) -> None:
    async with await SocketStream.from_socket(ours) as stream:
        await Worker(target, stream).run()


def main(target: str, descriptor: str) -> None:
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    harden()
    ours = socket.socket(fileno=int(descriptor))
    ours.set_inheritable(False)  # the benchmark's own child processes must not hold it open
    watched = ours.dup()
    atexit.register(end_session_after, watched)  # the first one: after what the benchmark registers
    threading.Thread(target=end_with_parent, args=(watched,), daemon=True).start()
    anyio.run(run, target, ours)


if __name__ == "__main__":
    main(*sys.argv[1:])
