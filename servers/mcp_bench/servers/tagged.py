"""Select a benchmark's tasks by tag."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import islice

from mcp_bench.servers.contracts import Benchmark, Task
from mcp_bench.servers.errors import UnknownNameError


def tagged(
    benchmark: Benchmark, split: str | None, tags: Collection[str], limit: int | None = None
) -> Iterator[Task]:
    """Yield the tasks of a split that have all of `tags`, at most `limit` of them.

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
    return islice((task for task in benchmark.tasks(split) if wanted <= set(task.tags)), limit)
