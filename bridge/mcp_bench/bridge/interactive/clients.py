"""All clients of one process, and the benchmarks and recordings behind them."""

from __future__ import annotations

import logging
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import anyio
from anyio.abc import TaskGroup

from mcp_bench.bridge.episode.plan import tools_of
from mcp_bench.bridge.interactive.client import Client
from mcp_bench.bridge.interactive.run import InteractiveRun, TaskChoice, open_queue
from mcp_bench.recorder.records import FlagKind, now_us
from mcp_bench.servers.contracts import Benchmark, BenchmarkDefaults, ToolSpec, with_defaults
from mcp_bench.servers.errors import BenchError, WrongUseError
from mcp_bench.servers.mcp_server.world_session import refuse_control
from mcp_bench.servers.registry import load

logger = logging.getLogger(__name__)


@dataclass
class ClientState:
    """A client, and how many connections it has now."""

    client: Client
    benchmark: str
    choice: TaskChoice
    name: str
    """Name for status and logs. It never contains the token."""
    since_us: int = field(default_factory=now_us)
    connections: int = 0


@dataclass(frozen=True)
class _OpenBenchmark:
    run: InteractiveRun
    tools: tuple[ToolSpec, ...]


class Clients:
    """Create and end clients. Needs a task group that runs until `close` has returned."""

    def __init__(
        self,
        tasks: TaskGroup,
        *,
        idle: float,
        on_create: Callable[[str], None] = lambda run: None,
        on_request: Callable[[], None] = lambda: None,
    ) -> None:
        """Start without any client.

        Args:
            tasks: Runs the timers of open tasks.
            idle: Seconds without a call after which an open task ends.
            on_create: Called with the id of each new run.
            on_request: Called when an HTTP request begins and when it ends.
        """
        self.states: dict[object, ClientState] = {}
        """Keyed by (benchmark, token), or by a unique object for clients without a token."""
        self.done = 0
        """Number of tasks that former clients have ended."""
        self._tasks = tasks
        self._idle = idle
        self._on_create = on_create
        self._on_request = on_request
        self.requests = 0
        """Number of running HTTP requests."""
        self._benchmarks: dict[str, _OpenBenchmark] = {}
        self._lock = anyio.Lock()
        self._closed = False

    async def check(self, benchmark: str, choice: TaskChoice) -> None:
        """Check that the benchmark can serve clients.

        Raises:
            BenchError: the benchmark or a task does not exist, or the benchmark is unusable.
        """
        async with self._lock:
            await self._open(benchmark, choice, "-")

    async def join(self, benchmark: str, token: str | None, choice: TaskChoice, name: str) -> ClientState:
        """Return the client of a token, or a new client, and count one more connection.

        The first connection of a client chooses its tasks. Once no connection is left, the next one may
        choose again.

        Raises:
            BenchError: the benchmark or a task does not exist, the benchmark is unusable, or another
                connection of this client has chosen other tasks.
        """
        async with self._lock:
            if self._closed:
                raise BenchError("the server is ending")
            key = (benchmark, token) if token is not None else object()
            state = self.states.get(key)
            if state is not None and state.choice != choice:
                if state.connections:
                    raise WrongUseError(
                        "this --entry is in use with another choice of tasks. Give the same --split, --task, "
                        "--seed and --limit, or use another --entry"
                    )
                await self._drop(key)
                state = None
            if state is None:
                client = await self._open(benchmark, choice, name)
                state = self.states[key] = ClientState(client, benchmark, choice, name)
            state.connections += 1
            return state

    async def leave(self, state: ClientState) -> None:
        """Count one connection less. With the last one the open task ends."""
        with anyio.CancelScope(shield=True):
            async with self._lock:
                state.connections -= 1
                if state.connections:
                    return
                key = next((key for key, known in self.states.items() if known is state), None)
                task = state.client.task
            # outside the lock: grading may take long, and other clients must be able to join and leave
            if isinstance(key, tuple):
                if task is not None:
                    await self._end(state, state.client.end_task("agent_exit", task))
            else:
                await self._end(state, state.client.close("agent_exit"))
                if self.states.pop(key, None) is not None:
                    self.done += state.client.done

    @contextmanager
    def request(self) -> Iterator[None]:
        """Count an HTTP request while it runs."""
        self.requests += 1
        self._on_request()
        try:
            yield
        finally:
            self.requests -= 1
            self._on_request()

    def flag(self, kind: FlagKind, detail: str) -> None:
        """Store a flag in every run, because the agent that caused it is unknown."""
        for opened in self._benchmarks.values():
            opened.run.flag(kind, detail)

    async def end_tasks(self) -> None:
        """End and grade every open task, and refuse to start another one."""
        with anyio.CancelScope(shield=True):
            async with self._lock:
                self._closed = True
                async with anyio.create_task_group() as ending:
                    for state in self.states.values():
                        ending.start_soon(self._end, state, state.client.close("cancelled"))

    async def close(self) -> None:
        """Close benchmarks and recordings. No connection may be left."""
        with anyio.CancelScope(shield=True):
            for opened in self._benchmarks.values():
                await opened.run.benchmark.aclose()
                opened.run.close()

    async def _open(self, benchmark: str, choice: TaskChoice, name: str) -> Client:
        found: Benchmark = load("benchmark", benchmark)
        if other := with_defaults(found, BenchmarkDefaults).by_hand:
            found = load("benchmark", other)
        opened = self._benchmarks.get(found.name)
        if opened is None:
            tools = tuple(await anyio.to_thread.run_sync(tools_of, found))
            refuse_control(tools, found.name)
            opened = self._benchmarks[found.name] = _OpenBenchmark(
                InteractiveRun(found, self._on_create), tools
            )
        queue = await anyio.to_thread.run_sync(open_queue, opened.run.benchmark, choice)
        return Client(
            opened.run, opened.tools, queue, self._tasks, name=name, seed=choice.seed, idle=self._idle
        )

    async def _drop(self, key: object) -> None:
        state = self.states.pop(key)
        await self._end(state, state.client.close("agent_exit"))
        self.done += state.client.done

    async def _end(self, state: ClientState, ending: Awaitable[None]) -> None:
        try:
            await ending
        except BenchError as error:
            logger.error("%s: %s", state.name, error)


async def stop_on_signal(scope: anyio.CancelScope) -> None:
    """Cancel `scope` at the first SIGINT, SIGTERM or SIGHUP. Later signals have no further effect."""
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
        async for _ in signals:
            scope.cancel()
