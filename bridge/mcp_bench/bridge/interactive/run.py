"""Where interactive use is recorded: one run for a benchmark and the process that serves it.

Its episodes are not planned: they come as the tasks are taken. The folder is made with the first
connection, and goes again where nobody took a task.
"""

from __future__ import annotations

import itertools
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import anyio

from mcp_bench.bridge.episode.plan import chosen_tasks
from mcp_bench.recorder.records import FlagKind, PlannedEpisode, RunInfo, new_id, now_us
from mcp_bench.recorder.store.recording import Recording
from mcp_bench.recorder.store.run_folder import RunFolder
from mcp_bench.servers.contracts import Benchmark, Task
from mcp_bench.servers.errors import WrongUseError

AGENT = "hand"
"""The run's agent; that of an episode is what its client told."""


class InteractiveRun:
    """The recordings and grades of interactive use on one benchmark."""

    def __init__(self, benchmark: Benchmark, on_create: Callable[[str], None] = lambda run: None) -> None:
        """Nothing is written yet. `on_create` is told the run's id once its folder is made."""
        self.benchmark = benchmark
        self._on_create = on_create
        self._folder: RunFolder | None = None
        self._connections = itertools.count(1)
        self._times: Counter[tuple[str, int]] = Counter()

    @property
    def folder(self) -> RunFolder:
        """The run's folder.

        Raises:
            StorageError: it cannot be made.
        """
        if self._folder is None:
            info = RunInfo(
                id=new_id("run"),
                created_us=now_us(),
                benchmark=self.benchmark.name,
                benchmark_version=self.benchmark.version,
                agent=AGENT,
                agent_version="-",
                isolation="none",
                home="native",
                tools="all",
            )
            self._folder = RunFolder.create(info)
            self._on_create(info.id)
        return self._folder

    @property
    def recording(self) -> Recording:
        return self.folder.recording

    def next_connection(self) -> int:
        """Return the number of a new connection, unique in the run."""
        return next(self._connections)

    def plan(self, task: Task, seed: int) -> PlannedEpisode:
        """Return the slot of one more episode of a task."""
        repeat = self._times[task.id, seed]
        self._times[task.id, seed] += 1
        return PlannedEpisode(
            task=task.id,
            split=task.split,
            domain=task.domain,
            prompt=task.prompt,
            seed=seed,
            repeat=repeat,
            max_calls=task.max_calls,
            timeout=task.timeout,
        )

    def flag(self, kind: FlagKind, detail: str) -> None:
        """Store that something was refused, if there is a run by now."""
        if self._folder is not None:
            self._folder.recording.flag(None, kind, detail)

    def close(self) -> None:
        """Close the folder; every episode has ended."""
        folder, self._folder = self._folder, None
        if folder is not None:
            folder.close()
            if not self._times:
                shutil.rmtree(folder.path, ignore_errors=True)


@dataclass(frozen=True)
class TaskChoice:
    """What was asked for: named tasks, or those of a split (None: the default ones), at most `limit`."""

    split: str | None = None
    tasks: tuple[str, ...] = ()
    seed: int = 0
    limit: int | None = None


class TaskQueue:
    """Hands out each chosen task once, lazily: a benchmark may have any number of them."""

    def __init__(self, tasks: Iterator[Task]) -> None:
        """Take the tasks, of which there is at least one; `open_queue` makes a queue."""
        self._tasks = tasks
        self._next: Task | None = next(tasks)
        self._turn = anyio.Lock()

    @property
    def has_more(self) -> bool:
        return self._next is not None

    async def take(self) -> Task | None:
        """Return the next task, None where all were handed out."""
        async with self._turn:
            task = self._next
            if task is not None:
                self._next = await anyio.to_thread.run_sync(next, self._tasks, None)
            return task


def queue_of(benchmark: Benchmark, choice: TaskChoice) -> TaskQueue:
    """Return the tasks that a choice means. Blocks: a benchmark may start a worker for it.

    Raises:
        BenchError: no such split or task, the choice is empty, or the benchmark cannot be used.
    """
    if choice.tasks:
        return TaskQueue(iter(chosen_tasks(benchmark, choice.split, choice.tasks, choice.limit)))
    try:
        return TaskQueue(benchmark.tasks(choice.split, choice.limit))
    except StopIteration:
        raise WrongUseError(
            f"benchmark {benchmark.name!r} has no task in split {choice.split or 'default'!r}"
        ) from None
