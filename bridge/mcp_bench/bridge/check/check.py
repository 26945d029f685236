"""All checks of a benchmark, in the order in which they are shown."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import anyio

from mcp_bench.bridge.check import agents
from mcp_bench.bridge.check.finding import Finding
from mcp_bench.bridge.check.overlap import overlap
from mcp_bench.bridge.check.sample import sample
from mcp_bench.bridge.check.sealing import sealing
from mcp_bench.bridge.check.worlds import open_all, schemas, speed
from mcp_bench.servers.contracts import Benchmark
from mcp_bench.servers.left_folders import temporary_folder


def check_benchmark(benchmark: Benchmark, limit: int, seed: int) -> Iterator[Finding]:
    """Yield what each check finds, as soon as it is known. Blocks.

    Args:
        limit: Tasks of each split.
        seed: Seed of the worlds and of the random agent.
    """
    chosen, listed = sample(benchmark, limit)
    yield listed
    if not chosen.all:
        return
    tasks = {task.id: task for task in chosen.all}
    opened = anyio.run(open_all, benchmark, chosen.all, seed)
    yield schemas(benchmark, opened)
    with ends_on_sigterm(), temporary_folder("mcp-bench-checks-") as folder:
        home = folder / "home"
        solvable = [name for name in tasks if name in opened.solutions]
        solved = agents.play("oracle", benchmark, solvable, home, seed) if solvable else None
        yield agents.oracle(solved, [name for name in tasks if name not in opened.solutions])
        idle = agents.play("noop", benchmark, list(tasks), home, seed)
        yield agents.noop(idle)
        wild = agents.play("random", benchmark, list(tasks), home, seed)
        yield agents.luck(wild)
        runs = [run for run in (solved, idle, wild) if run is not None]
        yield agents.determinism(benchmark, runs, opened)
        yield sealing(runs, tasks, opened.solutions)
        yield overlap(benchmark, chosen.tasks, opened.solutions)
        yield speed(opened, [one.seconds for one in solved.episodes() if one.seconds] if solved else [])


@contextmanager
def ends_on_sigterm() -> Iterator[None]:
    """Let SIGTERM end this process as Ctrl-C does: what was made for the checks is removed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
