"""All entries of one process: which there are, and the benchmarks and recordings behind them."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import anyio
from anyio.abc import TaskGroup

from mcp_bench.bridge.interactive.client import Entry
from mcp_bench.bridge.interactive.run import HandRun
from mcp_bench.bridge.interactive.task_queue import TaskChoice, queue_of
from mcp_bench.recorder.records import FlagKind, now_us
from mcp_bench.servers.contracts import Benchmark, ToolSpec
from mcp_bench.servers.errors import BenchError, WrongUseError
from mcp_bench.servers.registry import load
from mcp_bench.servers.world_session import refuse_control

logger = logging.getLogger(__name__)


@dataclass
class Guest:
    """An entry, and who uses it now."""

    entry: Entry
    benchmark: str
    choice: TaskChoice
    name: str
    """What others may see of it: never its token."""
    since_us: int = field(default_factory=now_us)
    connections: int = 0


@dataclass(frozen=True)
class _Offer:
    run: HandRun
    tools: tuple[ToolSpec, ...]


class Desk:
    """Hands out entries. Used inside a task group that runs until `close` has returned."""

    def __init__(
        self, tasks: TaskGroup, *, idle: float, on_create: Callable[[str], None] = lambda run: None
    ) -> None:
        """`idle` is the seconds without a call that end a task; `on_create` is told of each new run."""
        self.guests: dict[object, Guest] = {}
        """By (benchmark, token), or by an object of its own where there is no token."""
        self.done = 0
        """Tasks that were ended in entries that are gone."""
        self._tasks = tasks
        self._idle = idle
        self._on_create = on_create
        self._offers: dict[str, _Offer] = {}
        self._turn = anyio.Lock()
        self._closed = False

    async def check(self, benchmark: str, choice: TaskChoice) -> None:
        """See whether entries could be had.

        Raises:
            BenchError: there is no such benchmark or task, or it cannot be used.
        """
        async with self._turn:
            await self._open(benchmark, choice, "-")

    async def join(self, benchmark: str, token: str | None, choice: TaskChoice, name: str) -> Guest:
        """Return the entry of a token, or a new one; with one more connection.

        The tasks of an entry are chosen with its first connection, and may be chosen anew where no
        connection is left.

        Raises:
            BenchError: there is no such benchmark or task, it cannot be used, or others who are there
                use the entry with another choice of tasks.
        """
        async with self._turn:
            if self._closed:
                raise BenchError("the server is ending")
            key = (benchmark, token) if token is not None else object()
            guest = self.guests.get(key)
            if guest is not None and guest.choice != choice:
                if guest.connections:
                    raise WrongUseError(
                        "this entry is in use with another choice of tasks: leave the options out that "
                        "choose tasks, or use an entry of another name"
                    )
                await self._drop(key)
                guest = None
            if guest is None:
                entry = await self._open(benchmark, choice, name)
                guest = self.guests[key] = Guest(entry, benchmark, choice, name)
            guest.connections += 1
            return guest

    async def leave(self, guest: Guest) -> None:
        """Take one connection off an entry; with the last one its task ends."""
        with anyio.CancelScope(shield=True):
            async with self._turn:
                guest.connections -= 1
                if guest.connections:
                    return
                key = next((key for key, known in self.guests.items() if known is guest), None)
                task = guest.entry.task
            # grading may take its time: others may come and go meanwhile
            if isinstance(key, tuple):
                if task is not None:
                    await self._end(guest, guest.entry.end_task("agent_exit", task))
            else:
                await self._end(guest, guest.entry.close("agent_exit"))
                if self.guests.pop(key, None) is not None:
                    self.done += guest.entry.done

    def flag(self, kind: FlagKind, detail: str) -> None:
        """Store, in every run under way, that something was refused: of whose agent, nobody can say."""
        for offer in self._offers.values():
            offer.run.flag(kind, detail)

    async def end_tasks(self) -> None:
        """End and grade every open task; none is started any more."""
        with anyio.CancelScope(shield=True):
            async with self._turn:
                self._closed = True
                async with anyio.create_task_group() as ending:
                    for guest in self.guests.values():
                        ending.start_soon(self._end, guest, guest.entry.close("cancelled"))

    async def close(self) -> None:
        """Let go of benchmarks and recordings, once no connection is left."""
        with anyio.CancelScope(shield=True):
            for offer in self._offers.values():
                await offer.run.benchmark.aclose()
                offer.run.close()

    async def _open(self, benchmark: str, choice: TaskChoice, name: str) -> Entry:
        found: Benchmark = load("benchmark", benchmark)
        if other := getattr(found, "by_hand", None):  # the same tasks, with tools that do not change
            found = load("benchmark", other)
        offer = self._offers.get(found.name)
        if offer is None:
            tools = tuple(await anyio.to_thread.run_sync(found.tools))
            refuse_control(tools, found.name)
            offer = self._offers[found.name] = _Offer(HandRun(found, self._on_create), tools)
        queue = await anyio.to_thread.run_sync(queue_of, offer.run.benchmark, choice)
        return Entry(offer.run, offer.tools, queue, self._tasks, name=name, seed=choice.seed, idle=self._idle)

    async def _drop(self, key: object) -> None:
        guest = self.guests.pop(key)
        await self._end(guest, guest.entry.close("agent_exit"))
        self.done += guest.entry.done

    async def _end(self, guest: Guest, ending: Awaitable[None]) -> None:
        try:
            await ending
        except BenchError as error:
            logger.error("%s: %s", guest.name, error)
