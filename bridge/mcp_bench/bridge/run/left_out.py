"""Which of the chosen tasks are left out, and why, before the first episode."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import click
from rich.console import Console
from rich.progress import track

from mcp_bench.bridge.run.display import SILENCE_SECONDS
from mcp_bench.bridge.run.progress import Clock
from mcp_bench.recorder.counted import counted
from mcp_bench.recorder.records import PlannedEpisode
from mcp_bench.servers.contracts import Benchmark
from mcp_bench.servers.errors import WrongUseError
from mcp_bench.servers.needs import needed_role, unmet
from mcp_bench.servers.terminal.live import is_live
from mcp_bench.servers.terminal.sanitize import sanitize_line

SHOWN = 3

logger = logging.getLogger(__name__)


def that_can_run(episodes: Sequence[PlannedEpisode]) -> list[PlannedEpisode]:
    """Return the episodes whose tasks can run on this machine; see `tasks_that_can_run`."""
    kept = tasks_that_can_run({episode.task: episode.needs for episode in episodes})
    return [episode for episode in episodes if episode.task in kept]


def tasks_that_can_run(needs: Mapping[str, Iterable[str]]) -> set[str]:
    """Return the tasks that can run on this machine; say how many cannot, and why.

    Models of roles are checked apart: the operator can name them.

    Args:
        needs: of each task, by its id (`Task.needs`).

    Raises:
        WrongUseError: none of the tasks can run here.
    """
    kept: set[str] = set()
    left: dict[str, list[str]] = {}
    for task, needed in needs.items():
        why = "; ".join(unmet(need for need in needed if needed_role(need) is None))
        if why:
            left.setdefault(why, []).append(task)
        else:
            kept.add(task)
    for why, tasks in left.items():
        text = f"{counted(len(tasks), 'task')} that cannot run here: {sanitize_line(why)} ({_names(tasks)})"
        if not kept:
            raise WrongUseError(f"nothing to do: {text}")
        click.echo(f"Left out: {text}", err=True)
    return kept


def with_reference(
    bench: Benchmark, episodes: Sequence[PlannedEpisode], clock: Clock = time.monotonic
) -> list[PlannedEpisode]:
    """Return the episodes whose tasks have a reference; say how many have none.

    A reference that cannot be read counts as there: the episode will report the failure. Some benchmarks work
    a solution out, which takes seconds, so the progress is shown.

    Raises:
        WrongUseError: none of the tasks has one.
    """
    lacking: dict[str, None] = {}
    for task in _shown([*dict.fromkeys(episode.task for episode in episodes)], clock):
        try:
            if bench.reference(task) is None:
                lacking[task] = None
        except Exception:
            logger.debug("the reference of %s cannot be read", task, exc_info=True)
    kept = [episode for episode in episodes if episode.task not in lacking]
    if not kept:
        raise WrongUseError(f"benchmark {bench.name!r} has no reference for these tasks: take another agent")
    if lacking:
        tasks = f"{counted(len(lacking), 'task')} without a reference"
        click.echo(f"Left out: {tasks} ({_names(sorted(lacking))})", err=True)
    return kept


def _shown(tasks: Sequence[str], clock: Clock) -> Iterator[str]:
    """Yield the tasks. Show a bar on a terminal, a line after each long silence elsewhere."""
    console = Console(stderr=True)
    if is_live(console):
        yield from track(tasks, "Looking for references", console=console, transient=True)
        return
    last_line = clock()
    for done, task in enumerate(tasks):
        if clock() - last_line >= SILENCE_SECONDS:
            click.echo(f"[{done}/{len(tasks)}] looking for references", err=True)
            last_line = clock()
        yield task


def _names(tasks: Collection[str]) -> str:
    return sanitize_line(", ".join([*tasks][:SHOWN]) + (", ..." if len(tasks) > SHOWN else ""))
