"""Measure the scores of trivial agents on saasworld, and the size of the benchmark.

Run it with `.venv/bin/python benchmarks/learning/saasworld_floor.py`. Three agents attempt the same tasks
of `train` and `test`. *random* makes as many calls as the reference solution, with random tools and
arguments (ids, addresses and words come from earlier text). *shallow* makes only the first call of the
reference solution. *reader* makes all of its calls that change nothing.
"""

import random
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import anyio

from mcp_bench.clients.random_walk import WORD, WORDS_PER_RESULT, Draw
from mcp_bench.servers.contracts import Reference, Task, ToolCall, ToolSpec
from mcp_bench.servers.mcp_server.server import WorldSession
from mcp_bench.servers.saasworld import BENCHMARK
from mcp_bench.servers.saasworld.apps import apps, operations
from mcp_bench.servers.saasworld.authoring.family import all_families
from mcp_bench.servers.saasworld.tasks import build, parse

TASKS = 300
refused: Counter[bool] = Counter()
"""Number of the random agent's calls; the key is True for refused calls."""


async def play_random(session: WorldSession, task: Task, reference: Reference) -> None:
    draw = random.Random(task.id)
    seen = WORD.findall(task.prompt)
    for _ in reference.calls:
        tool: ToolSpec = draw.choice(session.tools)
        result = await session.call(tool.name, Draw(seen, draw).properties(tool.input_schema))
        refused[result.is_error] += 1
        seen += WORD.findall(result.text)[:WORDS_PER_RESULT]


async def play_calls(session: WorldSession, calls: Sequence[ToolCall]) -> None:
    for call in calls:
        await session.call(call.name, dict(call.arguments))


async def play_shallow(session: WorldSession, task: Task, reference: Reference) -> None:
    await play_calls(session, reference.calls[:1])


async def play_reader(session: WorldSession, task: Task, reference: Reference) -> None:
    await play_calls(session, [call for call in reference.calls if not operations()[call.name].writes])


AGENTS: dict[str, Callable[..., Any]] = {
    "random": play_random,
    "shallow": play_shallow,
    "reader": play_reader,
}


async def measure() -> list[tuple[str, str, list[float], int]]:
    rows = list[tuple[str, str, list[float], int]]()
    for name, play in AGENTS.items():
        for split in ("train", "test"):
            partial, strict = [], 0
            for task in BENCHMARK.tasks(split, TASKS):
                world = await BENCHMARK.open(task.id)
                await play(WorldSession(world), task, BENCHMARK.reference(task.id))
                grade = await world.grade("")
                partial.append(grade.partial)
                strict += grade.strict
            rows.append((name, split, partial, strict))
    return rows


def size() -> None:
    families = [family for family in all_families() if not family.practice]
    by_domain = Counter(family.domain for family in families)
    print(
        f"{len(families)} families, {sum(f.held_out for f in families)} of them held out; "
        f"{len(all_families()) - len(families)} more for practice; {len(apps())} apps"
    )
    print("  " + ", ".join(f"{domain} {count}" for domain, count in by_domain.items()))
    print(f"{len(operations())} tools")
    calls, records = defaultdict(list), defaultdict(list)
    for split in ("train", "test"):
        for task in islice(BENCHMARK.tasks(split), TASKS):
            made = build(parse(task.id))
            level = int(task.id.split(".")[1])
            calls[level].append(len(made.steps))
            records[level].append(sum(map(len, made.tables.values())))
    print("level  families  calls: min median max  records: median")
    for level in sorted(calls):
        some, many = calls[level], statistics.median(records[level])
        count = sum(level in family.levels for family in families)
        print(f"{level:5} {count:9} {min(some):11} {statistics.median(some):6.0f} {max(some):3} {many:16.0f}")


def main() -> None:
    size()
    print(f"\n{'agent':8} {'split':6} {'tasks':>5} {'partial':>8} {'strict':>7}")
    for name, split, partial, strict in anyio.run(measure):
        mean, share = statistics.mean(partial), strict / len(partial)
        print(f"{name:8} {split:6} {len(partial):5} {mean:8.4f} {share:7.4f}")
    print(f"calls of the random agent: {refused[False]} accepted, {refused[True]} refused")


if __name__ == "__main__":
    main()
