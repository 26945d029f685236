"""Select a benchmark's tasks by tag, and list them to their end."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import count, islice
from typing import Protocol, TypeVar

from mcp_bench.servers.contracts import Benchmark, BenchmarkDefaults, Task, with_defaults
from mcp_bench.servers.errors import UnknownNameError, WrongUseError

MOST_TASKS = 3_000
"""A list with more may be endless, such as codeworld's `train`."""


class OfSplit(Protocol):
    """A task, or what stands for one that could not be made."""

    @property
    def split(self) -> str: ...


Listed = TypeVar("Listed", bound=OfSplit)


def tagged(
    benchmark: Benchmark, split: str | None, tags: Collection[str], limit: int | None = None
) -> Iterator[Task]:
    """Return the tasks of a split that have all of `tags`, at most `limit` of them.

    Where the benchmark's own iterator can go on after a task that fails, so can this one.

    Raises:
        UnknownNameError: there is no such split, or none of its first tasks (`MOST_TASKS`, or `limit` if that
            is more) has one of the tags.
        WrongUseError: none of them has all of the tags.
    """
    wanted = set(tags)
    if wanted:
        known: set[str] = set()
        for task in islice(benchmark.tasks(split), max(MOST_TASKS, limit or 0)):
            known.update(task.tags)
            if wanted <= set(task.tags):
                break
        else:
            for tag in tags:
                if tag not in known:
                    raise UnknownNameError("tag", tag, known)
            raise WrongUseError(
                f"benchmark {benchmark.name!r} has no task in split {split or 'default'!r} with the tags "
                f"{', '.join(tags)}"
            )
    numbers = count() if limit is None else range(limit)  # islice would end with the first error
    found = filter(lambda task: wanted <= set(task.tags), benchmark.tasks(split))
    return map(lambda _, task: task, numbers, found)


def whole_list(
    tasks: Iterable[Listed], benchmark: Benchmark, split: str | None, limit: int | None
) -> list[Listed]:
    """Return tasks of a split that were selected with `limit` as a list.

    Raises:
        WrongUseError: there is no limit, and there are more than `MOST_TASKS`, or the split has no end.
    """
    endless = with_defaults(benchmark, BenchmarkDefaults).endless_splits
    found: list[Listed] = []
    for task in tasks:
        if limit is None and task.split in endless:
            raise WrongUseError(
                f"benchmark {benchmark.name!r} has tasks without end in split {task.split!r}: use --limit N"
            )
        if limit is None and len(found) == MOST_TASKS:
            raise WrongUseError(
                f"benchmark {benchmark.name!r} has more than {MOST_TASKS:,} tasks in split "
                f"{split or 'default'!r}, perhaps without an end: use --limit N"
            )
        found.append(task)
    return found
