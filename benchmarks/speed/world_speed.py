"""Episodes per second of each installed benchmark, in its own Python and through its worker.

    python benchmarks/speed/world_speed.py [--episodes 5] [BENCHMARK ...]

An episode is: open a world, play the reference, grade, close. "CPU ms" is what opening and closing take of
the processor, in milliseconds: medians over the tasks played, in one process, and with a worker in both.
Processes that a benchmark starts, such as Java, are not in it. "random" is what an agent gets that makes
twenty random moves in a step world. It prints rows for docs/benchmarks/figures.md.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from typing import Any, NamedTuple

import anyio

from mcp_bench.servers.contracts import JSON, Benchmark, ToolSpec
from mcp_bench.servers.registry import load
from mcp_bench.servers.remote import RemoteBenchmark
from mcp_bench.servers.remote.target import load_target

ADAPTERS = "mcp_bench.servers.adapters"
TARGETS = {
    "agentdojo": "mcp_bench.servers.agentdojo.benchmark:BENCHMARK",
    "bfcl": f"{ADAPTERS}.bfcl:BENCHMARK",
    "game-2048": f"{ADAPTERS}.game_2048:BENCHMARK",
    "gymnasium": f"{ADAPTERS}.gymnasium_text:BENCHMARK",
    "minigrid": f"{ADAPTERS}.minigrid_text:BENCHMARK",
    "reasoning-gym": f"{ADAPTERS}.reasoning_gym:BENCHMARK",
    "saasworld": "mcp_bench.servers.saasworld:BENCHMARK",
    "scienceworld": f"{ADAPTERS}.science_world:BENCHMARK",
    "tau2": f"{ADAPTERS}.tau2:BENCHMARK",
    "tetris": f"{ADAPTERS}.tetris:BENCHMARK",
    "textarena": f"{ADAPTERS}.text_arena:BENCHMARK",
}
STEP_WORLDS = ("game-2048", "gymnasium", "minigrid", "scienceworld", "tetris", "textarena")
OPENED = 50
"""How often each task is opened and closed at most besides its episode, ..."""
OPENING = 0.3
"""... and for how many seconds of the processor."""
RANDOM_CALLS = 20
WORDS = ("look around", "go to kitchen", "[0]", "[col 3]", "[1 1]", "[up]", "[2, 2]", "[red]")
"""What the random agent says where a tool takes any text."""


class Measured(NamedTuple):
    """What episodes of a benchmark took, in seconds."""

    opening: float
    """CPU time to open and close a world."""
    episode: float
    """Wall time."""
    played: int
    strict: int


def cpu_seconds(benchmark: Benchmark) -> float:
    """Return the CPU time of this process, and of the benchmark's worker if it has one."""
    worker = getattr(benchmark, "worker_pid", None)
    # clock_getcpuclockid(3), which Python lacks: all threads of a process, those that ended included
    theirs = time.clock_gettime((~worker << 3) | 2) if worker else 0.0
    return time.process_time() + theirs


async def opened(benchmark: Benchmark, task_id: str) -> float:
    """Return the mean CPU time to open and close a world of a task."""
    for _ in range(3):  # the first one may load what the task needs
        await (await benchmark.open(task_id)).close()
    began, times, spent = cpu_seconds(benchmark), 0, 0.0
    while times < OPENED and spent < OPENING:
        await (await benchmark.open(task_id)).close()
        times, spent = times + 1, cpu_seconds(benchmark) - began
    return spent / times


async def episodes(benchmark: Benchmark, count: int) -> Measured:
    """Play the references of the first tasks of `test` that have one."""
    tasks = [task.id for task in benchmark.tasks("test", 3 * count)]
    solved = [(task_id, found) for task_id in tasks if (found := benchmark.reference(task_id))][:count]
    opening, playing, strict = [], [], 0
    for task_id, reference in solved:
        opening.append(await opened(benchmark, task_id))
        start = time.perf_counter()
        world = await benchmark.open(task_id)
        for call in reference.calls:
            if call.name == "reply_to_user":
                await getattr(world, "reply")(str(call.arguments["message"]))  # noqa: B009 - not every world's
            else:
                await world.call(call.name, call.arguments)
        strict += (await world.grade(reference.answer)).strict
        await world.close()
        playing.append(time.perf_counter() - start)
    return Measured(statistics.median(opening), statistics.mean(playing), len(solved), strict)


def arguments(tool: ToolSpec, chance: random.Random) -> dict[str, JSON]:
    """Return random arguments for a tool of a step world."""
    found: dict[str, JSON] = {}
    properties: Any = tool.input_schema["properties"]
    for name, schema in properties.items():
        if "enum" in schema:
            found[name] = chance.choice(schema["enum"])
        elif schema["type"] == "integer":
            found[name] = chance.randint(schema["minimum"], schema["maximum"])
        else:
            found[name] = chance.choice(WORDS)
    return found


async def random_agent(benchmark: Benchmark, count: int) -> str:
    """Return the mean partial credit and the strict successes of random moves."""
    partial, strict, chance = 0.0, 0, random.Random(0)
    tasks = list(benchmark.tasks("test", count))
    for task in tasks:
        world = await benchmark.open(task.id)
        for _ in range(RANDOM_CALLS):
            tool = world.tools()[0]
            if (await world.call(tool.name, arguments(tool, chance))).done:
                break
        grade = await world.grade("")
        partial, strict = partial + grade.partial, strict + grade.strict
        await world.close()
    return f"{partial / len(tasks):.3f}, {strict}/{len(tasks)}"


async def measure(name: str, count: int) -> str:
    listed = load("benchmark", name)
    python = listed.python if isinstance(listed, RemoteBenchmark) else sys.executable
    command = [python, "-s", __file__, name, "--here", "--episodes", str(count)]
    here = Measured(**json.loads((await anyio.run_process(command, stderr=None)).stdout))
    remote = RemoteBenchmark(name, TARGETS[name], version=listed.version, python=python)
    try:
        there = await episodes(remote, count)
        guessed = await random_agent(remote, 2 * count) if name in STEP_WORLDS else "-"
    finally:
        await remote.aclose()
    cells = (
        f"`{name}`",
        f"{here.strict}/{here.played}",
        f"{1 / here.episode:.2f}",
        f"{1 / there.episode:.2f}",
        f"{1000 * here.opening:.2f}",
        f"{1000 * there.opening:.2f}",
        f"{1000 * (there.opening - here.opening):+.2f}",
        f"{there.opening / here.opening:.1f}",
        guessed,
    )
    return f"| {' | '.join(cells)} |"


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", metavar="BENCHMARK", help=", ".join(TARGETS))
    parser.add_argument("--episodes", type=int, default=5)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.here:
        print(json.dumps((await episodes(load_target(TARGETS[chosen.names[0]]), chosen.episodes))._asdict()))
        return
    print("| benchmark | strict | 1/s here | 1/s there | CPU ms here | there | added | times | random |")
    print("|---|---|---:|---:|---:|---:|---:|---:|---:|")
    for name in chosen.names or TARGETS:
        missing = getattr(load("benchmark", name), "missing", None)
        if reason := missing and missing():
            print(f"{name} is left out: {reason}", file=sys.stderr)
            continue
        print(await measure(name, chosen.episodes), flush=True)


if __name__ == "__main__":
    anyio.run(main)
