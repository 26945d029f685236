"""The tasks that are checked: some of each split, from as many domains as possible."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mcp_bench.bridge.check.finding import Finding, judged
from mcp_bench.bridge.check.overlap import few
from mcp_bench.bridge.episode.plan import FailedTask, listed_tasks
from mcp_bench.servers.contracts import Benchmark, Task
from mcp_bench.servers.errors import UnknownNameError
from mcp_bench.servers.mcp_server.world_session import error_text
from mcp_bench.servers.needs import unmet

SPLITS = ("train", "dev", "test")
"""Those that mean something to mcp-bench."""
LOOKED_AT = 8
"""Tasks of a split that are listed for each one that is checked."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Tasks by split."""

    tasks: dict[str, list[Task]]

    @property
    def all(self) -> list[Task]:
        return [task for tasks in self.tasks.values() for task in tasks]


def sample(benchmark: Benchmark, limit: int) -> tuple[Sample, Finding]:
    """Choose up to `limit` tasks of each split that can run here, and check how they are listed."""
    chosen: dict[str, list[Task]] = {}
    failures: list[str] = []
    left_out: list[str] = []
    for split in SPLITS:
        try:
            found = list(listed_tasks(benchmark, split, (), limit * LOOKED_AT))
        except UnknownNameError:
            continue
        listed = [task for task in found if isinstance(task, Task)]
        failures += few([f"{one.id} fails: {one.error}" for one in found if isinstance(one, FailedTask)])
        able = [task for task in listed if not unmet(task.needs)]
        if listed and not able:
            left_out.append(f"{split}: no task can run here: {'; '.join(unmet(listed[0].needs))}")
        chosen[split] = spread(able, limit)
        for task in listed:
            if task.split != split:
                failures.append(f"{task.id} is listed in {split}, but says that its split is {task.split}")
            if task.benchmark != benchmark.name:
                failures.append(f"{task.id} says that its benchmark is {task.benchmark!r}")
            if not task.prompt.strip():
                failures.append(f"{task.id} has an empty prompt")
        counts = Counter(task.id for task in listed)
        failures += [f"{name} is listed {count} times" for name, count in counts.items() if count > 1]
    if not chosen:
        failures.append(f"it has none of the splits {', '.join(SPLITS)}: only these can be checked")
    sampled = Sample(chosen)
    failures += misnamed(benchmark, sampled.all)
    parts = ", ".join(f"{len(tasks)} of {split}" for split, tasks in chosen.items())
    if not sampled.all:
        failures.append("there is no task to check")
    return sampled, judged("tasks", f"checked: {parts or 'none'}", failures, left_out)


def misnamed(benchmark: Benchmark, tasks: Iterable[Task]) -> list[str]:
    """Return what is wrong with looking tasks up by their ids."""
    wrong = []
    for task in tasks:
        try:
            if benchmark.task(task.id) != task:
                wrong.append(f"task({task.id!r}) is another task than the listed one")
        except Exception as error:
            wrong.append(f"task({task.id!r}): {error_text(error)}")
    try:
        benchmark.task("no such task \N{SNOWMAN}")
        wrong.append("task() returns a task for an id that does not exist")
    except UnknownNameError:
        pass
    except Exception as error:
        wrong.append(f"task() of an unknown id raises {type(error).__name__}, not UnknownNameError")
    return wrong


def spread(tasks: Sequence[Task], limit: int) -> list[Task]:
    """Return the first task of each domain, then the second ones, up to `limit`."""
    seen: dict[str, int] = {}
    ranked = []
    for place, task in enumerate(tasks):
        seen[task.domain] = seen.get(task.domain, 0) + 1
        ranked.append((seen[task.domain], place, task))
    return [task for _, _, task in sorted(ranked, key=lambda one: one[:2])[:limit]]
