"""Measure opening and grading of saasworld tasks, the size of worlds, and the slowest calls.

Run it with `.venv/bin/python benchmarks/speed/saasworld_speed.py`. Recently opened tasks are cached, so
opening is timed on new tasks, and reopening separately.
"""

import gc
import resource
import statistics
import time
import tracemalloc
from collections.abc import Callable
from functools import partial

import anyio

from mcp_bench.servers.contracts import World
from mcp_bench.servers.saasworld import BENCHMARK
from mcp_bench.servers.saasworld.apps import apps, operations
from mcp_bench.servers.saasworld.authoring.builder import Builder
from mcp_bench.servers.saasworld.authoring.family import all_families
from mcp_bench.servers.saasworld.authoring.wording import free
from mcp_bench.servers.saasworld.tasks import build, parse
from mcp_bench.servers.saasworld.toolsets import Direct

TASKS = 60
WORLDS = 1000
LARGE = 1000
"""Records per app in the world for measuring the slowest calls."""


def timed(function: Callable[[], object]) -> float:
    """Return the duration in milliseconds."""
    start = time.perf_counter()
    function()
    return (time.perf_counter() - start) * 1000


def level_tasks(level: int, first: int, count: int) -> list[str]:
    kinds = [(f.id, "test" if f.held_out else "train") for f in all_families() if level in f.levels]
    return [
        f"{kinds[i % len(kinds)][0]}.{level}.{kinds[i % len(kinds)][1]}.{first + i}" for i in range(count)
    ]


async def open_and_grade() -> None:
    columns = ("open", "(max)", "reopen", "solve", "grade", "open+grade", "records")
    print("ms".ljust(8) + "".join(column.rjust(12) for column in columns))
    for level in range(1, 6):
        opening, again, solving, grading, records = [], [], [], [], []
        for task in level_tasks(level, 10_000, TASKS):
            start = time.perf_counter()
            world = await BENCHMARK.open(task)
            opening.append((time.perf_counter() - start) * 1000)
            start = time.perf_counter()
            await BENCHMARK.open(task)
            again.append((time.perf_counter() - start) * 1000)
            start = time.perf_counter()
            for call in BENCHMARK.reference(task).calls:
                await world.call(call.name, dict(call.arguments))
            solving.append((time.perf_counter() - start) * 1000)
            start = time.perf_counter()
            await world.grade("")
            grading.append((time.perf_counter() - start) * 1000)
            records.append(sum(len(table) for table in build(parse(task)).tables.values()))
        opened, reopened, solved, graded = map(statistics.median, (opening, again, solving, grading))
        row = (opened, max(opening), reopened, solved, graded, opened + graded, statistics.median(records))
        print(f"level {level} " + "".join(f"{value:12.2f}" for value in row))


async def memory() -> None:
    gc.collect()
    tracemalloc.start()
    worlds: list[World] = [await BENCHMARK.open(task) for task in level_tasks(5, 20_000, 20)]
    gc.collect()
    print(f"\nlevel-5 world: {tracemalloc.get_traced_memory()[0] / len(worlds) / 1e6:.2f} MB")
    tracemalloc.stop()
    worlds.clear()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    worlds = [await BENCHMARK.open(task) for task in level_tasks(3, 30_000, WORLDS)]
    elapsed = time.perf_counter() - start
    for world in worlds:
        await world.call("crm_accounts_list", {})
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(f"{WORLDS} level-3 worlds open at once: {elapsed:.1f} s to open, {grown:.0f} MB more resident")


def slowest_calls() -> None:
    b = Builder(3, 0, 1_790_000_000, 3)
    for name in apps():
        b.background(name, LARGE if name not in ("sheets", "forms") else 20)
    b.request("Do it.", "Please do it.", "Could you do it?")
    b.do("mail_messages_send", to=["ann@else.example"], subject=free("Hi"), body=free("Hello"))
    built = b.finish()
    state, tools = built.start(), Direct(built)
    some: dict[str, object] = {"query": "a", "limit": 100, "sort": "", "id": "x"}
    some |= {"attendees": [b.me.email], "start": "2000-01-01T00:00:00Z", "end": "2100-01-01T00:00:00Z"}
    found = []
    for name, operation in operations().items():
        arguments = {key: value for key, value in some.items() if key in operation.by_name}
        if "sort" in arguments:
            arguments["sort"] = operation.by_name["sort"].schema["enum"][0]
        if "id" in arguments:
            collection = f"{operation.app}.{operation.path.split('/')[1]}"
            arguments["id"] = next(iter(state.tables.get(collection, {"x": {}})))
        if operation.writes or tools.call(state, name, dict(arguments)).is_error:
            continue  # it cannot be repeated, or there is no such record
        call = partial(tools.call, state, name, dict(arguments))
        found.append((statistics.median(timed(call) for _ in range(5)), name))
    records = sum(len(table) for table in state.tables.values())
    print(f"\nslowest of {len(found)} calls that change nothing, in a world of {records} records (ms)")
    for milliseconds, name in sorted(found, reverse=True)[:8]:
        print(f"  {milliseconds:7.2f}  {name}")


if __name__ == "__main__":
    anyio.run(open_and_grade)
    anyio.run(memory)
    slowest_calls()
