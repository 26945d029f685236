"""The plan of a run: all its episodes, fixed before the first one starts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from mcp_bench.recorder.records import PlannedEpisode
from mcp_bench.servers.contracts import Benchmark, Task
from mcp_bench.servers.errors import WrongUseError
from mcp_bench.servers.tagged import tagged


def chosen_tasks(
    benchmark: Benchmark,
    split: str | None,
    task_ids: Sequence[str],
    limit: int | None,
    tags: Sequence[str] = (),
) -> list[Task]:
    """Return at most `limit` tasks: those named, or those of a split that have all of `tags`.

    Raises:
        UnknownNameError: no such split, task or tag.
        WrongUseError: the choice is empty, tasks are named together with tags, or a named task is in another
            split.
    """
    if task_ids and tags:
        raise WrongUseError("--task and --tag exclude each other: leave out one")
    if task_ids:
        tasks = list(islice((benchmark.task(task_id) for task_id in dict.fromkeys(task_ids)), limit))
        if split not in (None, "all"):
            check_split(benchmark, tasks, split)
    else:
        tasks = list(tagged(benchmark, split, tags, limit))
    if not tasks:
        raise WrongUseError(
            f"benchmark {benchmark.name!r} has no task in split {split or 'default'!r}"
            + (f" with the tags {', '.join(tags)}" if tags else "")
        )
    return tasks


def check_split(benchmark: Benchmark, tasks: Sequence[Task], split: str) -> None:
    """Check that named tasks are in the split.

    Raises:
        UnknownNameError: there is no such split.
        WrongUseError: a task is in another split.
    """
    next(iter(benchmark.tasks(split, 1)), None)
    for task in tasks:
        if task.split != split:
            raise WrongUseError(
                f"task {task.id!r} is in split {task.split!r}, not in {split!r}. Leave out --split or --task"
            )


def plan(tasks: Sequence[Task], repeat: int, seed: int, max_calls: int | None = None) -> list[PlannedEpisode]:
    """Return every episode of a run: all tasks, repeated `repeat` times.

    `max_calls` is the limit of an episode, unless its task sets a lower one.
    """
    return [
        PlannedEpisode(
            task=task.id,
            split=task.split,
            domain=task.domain,
            prompt=task.prompt,
            seed=seed,
            repeat=number,
            max_calls=fewer(task.max_calls, max_calls),
            timeout=task.timeout,
        )
        for number in range(repeat)
        for task in tasks
    ]


def fewer(one: int | None, other: int | None) -> int | None:
    return min((limit for limit in (one, other) if limit is not None), default=None)
