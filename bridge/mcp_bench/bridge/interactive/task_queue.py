"""Which tasks a client gets, in which order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import anyio

from mcp_bench.bridge.episode.plan import chosen_tasks
from mcp_bench.servers.contracts import Benchmark, Task
from mcp_bench.servers.errors import WrongUseError


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
