"""What a run is going to do, fixed before its first episode and stored with it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from mcp_bench.recorder.records import PlannedEpisode
from mcp_bench.servers.contracts import Benchmark, Task
from mcp_bench.servers.errors import WrongUseError


def chosen_tasks(
    benchmark: Benchmark, split: str | None, task_ids: Sequence[str], limit: int | None
) -> list[Task]:
    """Return the tasks to record: those named, or those of a split, at most `limit`.

    Raises:
        UnknownNameError: no such split or task.
        WrongUseError: the choice is empty.
    """
    if task_ids:
        tasks = list(islice((benchmark.task(task_id) for task_id in dict.fromkeys(task_ids)), limit))
    else:
        tasks = list(benchmark.tasks(split, limit))
    if not tasks:
        raise WrongUseError(f"benchmark {benchmark.name!r} has no task in split {split or 'default'!r}")
    return tasks


def plan(tasks: Sequence[Task], repeat: int, seed: int) -> list[PlannedEpisode]:
    """Return every episode of a run: all tasks once, then all of them again, `repeat` times."""
    return [
        PlannedEpisode(
            task=task.id,
            split=task.split,
            domain=task.domain,
            prompt=task.prompt,
            seed=seed,
            repeat=number,
            max_calls=task.max_calls,
            timeout=task.timeout,
        )
        for number in range(repeat)
        for task in tasks
    ]
