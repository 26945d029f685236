"""The plan of a run: all its episodes, fixed before the first one starts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import count, islice
from typing import NamedTuple

import anyio

from mcp_bench.recorder.records import PlannedEpisode
from mcp_bench.servers.contracts import Benchmark, Task, ToolSpec
from mcp_bench.servers.errors import BenchError, WorkerDiedError, WrongUseError
from mcp_bench.servers.remote.failures import RemoteFailureError
from mcp_bench.servers.tagged import tagged, whole_list

MAX_FAILURES = 100
"""Failures in a row after which a list of tasks is over: an iterator could fail for ever."""


class FailedTask(NamedTuple):
    """A task that the benchmark did not give, because its own code failed."""

    id: str
    split: str
    error: str


def chosen_tasks(
    benchmark: Benchmark,
    split: str | None,
    task_ids: Sequence[str],
    limit: int | None,
    tags: Sequence[str] = (),
) -> list[Task | FailedTask]:
    """Return at most `limit` tasks: those named, or those of a split that have all of `tags`.

    A task for which the benchmark's code raises is a `FailedTask`.

    Raises:
        BenchError: the benchmark says what its user can do.
        UnknownNameError: no such split, task or tag.
        WrongUseError: the choice is empty or, without a limit, perhaps endless; tasks are named together with
            tags, or a named task is in another split.
    """
    if task_ids and tags:
        raise WrongUseError("--task and --tag exclude each other: leave out one")
    if task_ids:
        wanted = islice(dict.fromkeys(task_ids), limit)
        tasks = [named_task(benchmark, task_id, split or "") for task_id in wanted]
        if split not in (None, "all"):
            check_split(benchmark, tasks, split)
    else:
        tasks = whole_list(listed_tasks(benchmark, split, tags, limit), benchmark, split, limit)
        names = Counter(task.id for task in tasks)
        if twice := [name for name, times in names.items() if times > 1]:
            raise BenchError(f"benchmark {benchmark.name!r} lists the task {twice[0]!r} more than once")
    if not tasks:
        raise WrongUseError(
            f"benchmark {benchmark.name!r} has no task in split {split or 'default'!r}"
            + (f" with the tags {', '.join(tags)}" if tags else "")
        )
    return tasks


def named_task(benchmark: Benchmark, task_id: str, split: str) -> Task | FailedTask:
    try:
        return benchmark.task(task_id)
    except (Exception, SystemExit) as error:
        return FailedTask(task_id, split, own_failure(error))


def listed_tasks(
    benchmark: Benchmark, split: str | None, tags: Sequence[str], limit: int | None
) -> Iterator[Task | FailedTask]:
    """Yield the tasks of a split. Where the list fails, a `FailedTask` has its position for an id.

    A list that is a generator ends with its first failure.
    """
    try:
        tasks = tagged(benchmark, split, tags, limit)
    except (Exception, SystemExit) as error:
        raise BenchError(
            f"benchmark {benchmark.name!r} cannot list its tasks: {own_failure(error)}"
        ) from error
    failures = 0
    for position in count(1):
        try:
            found = next(tasks)
        except StopIteration:
            return
        except (Exception, SystemExit) as error:
            failures += 1
            yield FailedTask(f"{split or 'default'}#{position}", split or "", own_failure(error))
            if failures == MAX_FAILURES:
                return
        else:
            failures = 0
            yield found


def tools_of(bench: Benchmark) -> Sequence[ToolSpec]:
    """Return every tool of a benchmark.

    Raises:
        BenchError: its own code failed.
    """
    try:
        return bench.tools()
    except (Exception, SystemExit) as error:
        text = f"benchmark {bench.name!r} cannot list its tools: {own_failure(error)}"
        raise BenchError(text) from error


def own_failure(error: Exception | SystemExit) -> str:
    """Return a failure of the benchmark's own code in one line.

    Raises:
        BenchError: `error` is one that the user can fix, such as an unknown name.
    """
    failed = isinstance(error, RemoteFailureError | WorkerDiedError)
    if isinstance(error, BenchError) and not failed:
        raise error
    return str(error) if failed else f"{type(error).__name__}: {error}"


def check_split(benchmark: Benchmark, tasks: Sequence[Task | FailedTask], split: str) -> None:
    """Check that named tasks are in the split.

    Raises:
        UnknownNameError: there is no such split.
        WrongUseError: a task is in another split.
    """
    next(iter(benchmark.tasks(split, 1)), None)
    for task in tasks:
        if task.split != split and isinstance(task, Task):
            raise WrongUseError(
                f"task {task.id!r} is in split {task.split!r}, not in {split!r}. Leave out --split or --task"
            )


def plan(
    tasks: Iterable[Task | FailedTask], repeat: int, seed: int, max_calls: int | None = None
) -> list[PlannedEpisode]:
    """Return every episode of a run: all tasks, repeated `repeat` times.

    `max_calls` is the limit of an episode, unless its task sets a lower one.
    """
    kept = list(tasks)
    return [planned_episode(task, number, seed, max_calls) for number in range(repeat) for task in kept]


def planned_episode(
    task: Task | FailedTask, repeat: int, seed: int, max_calls: int | None = None
) -> PlannedEpisode:
    if isinstance(task, FailedTask):
        return PlannedEpisode(
            task=task.id,
            split=task.split,
            domain="",
            prompt="",
            seed=seed,
            repeat=repeat,
            max_calls=max_calls,
            error=task.error,
        )
    return PlannedEpisode(
        task=task.id,
        split=task.split,
        domain=task.domain,
        prompt=task.prompt,
        seed=seed,
        repeat=repeat,
        max_calls=fewer(task.max_calls, max_calls),
        timeout=task.timeout,
        system=task.system,
        trainable=task.trainable,
        limits=task.limits,
        needs=task.needs,
    )


def full_prompt(planned: PlannedEpisode) -> str:
    """Return what the agent gets as its prompt: instructions that many tasks share, then the task."""
    return f"{planned.system}\n\n{planned.prompt}" if planned.system else planned.prompt


async def asked_again(benchmark: Benchmark, episode: PlannedEpisode) -> PlannedEpisode:
    """Return the episode of a task that the benchmark did not give before, with its prompt if it does now."""
    try:
        task = await anyio.to_thread.run_sync(benchmark.task, episode.task)
        return planned_episode(task, episode.repeat, episode.seed, episode.max_calls)
    except (Exception, SystemExit):  # as before: that error is stored
        return episode


def fewer(one: int | None, other: int | None) -> int | None:
    return min((limit for limit in (one, other) if limit is not None), default=None)
