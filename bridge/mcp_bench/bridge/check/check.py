"""All checks of a benchmark, in the order in which they are shown."""

from __future__ import annotations

from collections.abc import Iterator

import anyio

from mcp_bench.bridge.check import agents
from mcp_bench.bridge.check.finding import Finding
from mcp_bench.bridge.check.names import names
from mcp_bench.bridge.check.overlap import overlap
from mcp_bench.bridge.check.sample import sample
from mcp_bench.bridge.check.sealing import sealing
from mcp_bench.bridge.check.shortcuts import shortcuts
from mcp_bench.bridge.check.worlds import open_all, schemas, speed
from mcp_bench.bridge.process.ends_on_sigterm import ends_on_sigterm
from mcp_bench.servers.contracts import Benchmark
from mcp_bench.servers.left_folders import temporary_folder


def check_benchmark(benchmark: Benchmark, limit: int, seed: int) -> Iterator[Finding]:
    """Yield what each check finds, as soon as it is known. Blocks.

    Args:
        limit: Tasks of each split.
        seed: Seed of the worlds and of the random agent.
    """
    yield names(benchmark)
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
        works = [task for task in chosen.all if task.id not in opened.broken]
        yield anyio.run(shortcuts, benchmark, works, opened.solutions, seed)
        runs = [run for run in (solved, idle, wild) if run is not None]
        yield agents.determinism(benchmark, runs, opened)
        yield sealing(runs, tasks, opened.solutions)
        yield overlap(benchmark, chosen.tasks, opened.solutions)
        yield speed(opened, [one.seconds for one in solved.episodes() if one.seconds] if solved else [])
