"""The run of interactive use, and the tasks that its clients get.

Each process records one run per benchmark that it serves.

Episodes are not planned: each is created when a client takes a task. The first connection creates the run's
folder; a run without any task is removed at the end.
"""

from __future__ import annotations

import itertools
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import anyio

from mcp_bench.bridge.episode.plan import FailedTask, chosen_tasks, listed_tasks, planned_episode
from mcp_bench.recorder.option_fields import check_seed
from mcp_bench.recorder.records import FlagKind, PlannedEpisode, RunInfo, new_id, now_us
from mcp_bench.recorder.run_settings import RunSettings
from mcp_bench.recorder.runs.run_folder import RunFolder, remove_run
from mcp_bench.recorder.store.recording import Recording
from mcp_bench.servers.contracts import Benchmark, BenchmarkDefaults, Task, with_defaults
from mcp_bench.servers.errors import BenchError, WrongUseError

logger = logging.getLogger(__name__)

AGENT = "hand"
"""Agent of the run. The agent of an episode is the name that its client reports."""


class InteractiveRun:
    """The recordings and grades of interactive use on one benchmark."""

    def __init__(self, benchmark: Benchmark, on_create: Callable[[str], None]) -> None:
        """Set up a run without writing anything. `on_create` gets the run's id when its folder is created."""
        self.benchmark = benchmark
        self._on_create = on_create
        self._folder: RunFolder | None = None
        self._connections = itertools.count(1)
        self._repeats: Counter[tuple[str, int]] = Counter()

    @property
    def folder(self) -> RunFolder:
        """The run's folder.

        Raises:
            StorageError: it cannot be created.
        """
        if self._folder is None:
            private = with_defaults(self.benchmark, BenchmarkDefaults).private_splits
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
                settings=RunSettings(private_splits=list(private)),
            )
            self._folder = RunFolder.create(info)
            self._on_create(info.id)
        return self._folder

    @property
    def recording(self) -> Recording:
        return self.folder.recording

    def next_connection(self) -> int:
        """Return a connection number that is unique in the run."""
        return next(self._connections)

    def plan(self, task: Task, seed: int) -> PlannedEpisode:
        """Return the plan of one more episode of a task."""
        repeat = self._repeats[task.id, seed]
        self._repeats[task.id, seed] += 1
        return planned_episode(task, repeat, seed)

    def flag(self, kind: FlagKind, detail: str) -> None:
        """Store a flag, if the run has a folder by now."""
        if self._folder is not None:
            self._folder.recording.flag(None, kind, detail)

    def close(self) -> None:
        """Close the folder. Every episode must have ended."""
        folder, self._folder = self._folder, None
        if folder is not None:
            folder.close()
            if not self._repeats:
                remove_run(folder.path)


@dataclass(frozen=True)
class TaskChoice:
    """The tasks that a client wants: named ones, or those of a split; at most `limit`.

    Raises:
        WrongUseError: the seed cannot be stored.
    """

    split: str | None = None
    """None means the default tasks of the benchmark."""
    tasks: tuple[str, ...] = ()
    seed: int = 0
    limit: int | None = None

    def __post_init__(self) -> None:
        check_seed(self.seed)


class TaskQueue:
    """Return each chosen task once. Reads lazily, because a benchmark may have any number of tasks."""

    def __init__(self, tasks: Iterator[Task]) -> None:
        """Read the first task. Raises StopIteration if there is none; see `open_queue`."""
        self._tasks = tasks
        self._next: Task | None = next(tasks)
        self._lock = anyio.Lock()

    @property
    def has_more(self) -> bool:
        return self._next is not None

    async def take(self) -> Task | None:
        """Return the next task, or None after the last one."""
        async with self._lock:
            task = self._next
            if task is not None:
                self._next = await anyio.to_thread.run_sync(next, self._tasks, None)
            return task

    def put_back(self, task: Task) -> None:
        """Return a task that was taken: it is the next one again."""
        if self._next is not None:
            self._tasks = itertools.chain([self._next], self._tasks)
        self._next = task


def open_queue(benchmark: Benchmark, choice: TaskChoice) -> TaskQueue:
    """Return the queue of the chosen tasks. Blocks, because a benchmark may start a worker for it.

    Raises:
        BenchError: the split or a task does not exist, no task is chosen, or the benchmark is unusable.
    """
    if choice.tasks:
        tasks = chosen_tasks(benchmark, choice.split, choice.tasks, choice.limit)
        if failed := [task for task in tasks if isinstance(task, FailedTask)]:
            raise BenchError(f"task {failed[0].id!r} of benchmark {benchmark.name!r}: {failed[0].error}")
        return TaskQueue(task for task in tasks if isinstance(task, Task))
    try:
        return TaskQueue(working_tasks(benchmark, choice))
    except StopIteration:
        raise WrongUseError(
            f"benchmark {benchmark.name!r} has no task in split {choice.split or 'default'!r}"
        ) from None


def working_tasks(benchmark: Benchmark, choice: TaskChoice) -> Iterator[Task]:
    """Yield the tasks of a split without those that the benchmark's code fails to make, which are logged.

    Raises:
        BenchError: the split does not exist, or it fails to make any.
    """
    any_works, failure = False, ""
    for task in listed_tasks(benchmark, choice.split, (), choice.limit):
        if isinstance(task, Task):
            any_works = True
            yield task
        else:
            failure = failure or task.error
            logger.warning("task %s is left out: %s", task.id, task.error)
    if failure and not any_works:
        raise BenchError(f"benchmark {benchmark.name!r} cannot list its tasks: {failure}")
