"""Select a benchmark's tasks by tag."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import count

from mcp_bench.servers.contracts import Benchmark, Task
from mcp_bench.servers.errors import UnknownNameError


def tagged(
    benchmark: Benchmark, split: str | None, tags: Collection[str], limit: int | None = None
) -> Iterator[Task]:
    """Return the tasks of a split that have all of `tags`, at most `limit` of them.

    Where the benchmark's own iterator can go on after a task that fails, so can this one.

    Raises:
        UnknownNameError: there is no such split, or none of its tasks has one of the tags.
    """
    for tag in tags:
        known: set[str] = set()
        for task in benchmark.tasks(split):
            known.update(task.tags)
            if tag in known:
                break
        else:
            raise UnknownNameError("tag", tag, known)
    wanted = set(tags)
    numbers = count() if limit is None else range(limit)  # islice would end with the first error
    found = filter(lambda task: wanted <= set(task.tags), benchmark.tasks(split))
    return map(lambda _, task: task, numbers, found)
