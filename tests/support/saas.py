"""Play saasworld tasks in tests: list them, run calls on their worlds, digest their content."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator

import anyio

from mcp_bench.servers.contracts import ToolCall, ToolResult
from mcp_bench.servers.grading import Grade
from mcp_bench.servers.saasworld import API_BENCHMARK, BENCHMARK
from mcp_bench.servers.saasworld.authoring.builder import Built
from mcp_bench.servers.saasworld.authoring.family import Family, all_families
from mcp_bench.servers.saasworld.benchmark import SaasWorldBenchmark
from mcp_bench.servers.saasworld.tasks import build, parse
from mcp_bench.servers.saasworld.world import SaasWorld

TOOLSETS = {"direct": BENCHMARK, "api": API_BENCHMARK}


def kinds() -> list[tuple[str, int, str]]:
    """Return (family, level, split) of every family at each of its levels."""
    return [
        (family.id, level, "test" if family.held_out else "train")
        for family in all_families()
        for level in family.levels
    ]


def task_id(kind: tuple[str, int, str], number: int) -> str:
    family, level, split = kind
    return f"{family}.{level}.{split}.{number}"


def opened(task: str, benchmark: SaasWorldBenchmark = BENCHMARK) -> SaasWorld:
    async def open_it() -> SaasWorld:
        world = await benchmark.open(task)
        assert isinstance(world, SaasWorld)
        return world

    return anyio.run(open_it)


def play(world: SaasWorld, calls: Iterable[ToolCall]) -> list[ToolResult]:
    """Run calls, refused ones too, and return what they gave."""

    async def run() -> list[ToolResult]:
        return [await world.call(call.name, dict(call.arguments)) for call in calls]

    return anyio.run(run)


def graded(world: SaasWorld) -> Grade:
    return anyio.run(world.grade, "")


def solved(task: str) -> SaasWorld:
    """Return a world with the reference solution played."""
    world = opened(task)
    play(world, BENCHMARK.reference(task).calls)
    return world


def broken(grade: Grade) -> list[str]:
    """Return the names of the guardrails that are broken."""
    return [a.name for a in grade.assertions if a.kind == "guardrail" and not a.passed]


def changing_steps(task: str) -> Iterator[int]:
    """Yield which calls of the reference solution change something."""
    world = opened(task)
    for number, call in enumerate(BENCHMARK.reference(task).calls):
        before = world.state.changes()
        play(world, [call])
        if world.state.changes() != before:
            yield number


def digest(family: Family, numbers: Iterable[int]) -> str:
    """Return a SHA-256 over a family's tasks: every level and split, each with these numbers.

    It covers all that an agent or the grader sees.
    """
    splits = ("test",) if family.held_out else ("train", "dev")
    places = [(level, split, number) for level in family.levels for split in splits for number in numbers]
    found = hashlib.sha256()
    for level, split, number in places:
        task = _content(build(parse(f"{family.id}.{level}.{split}.{number}")))
        found.update(json.dumps(task).encode())
    return found.hexdigest()


def _content(built: Built) -> list[object]:
    """Return a task as plain JSON. The order of records and of their fields counts, too."""
    steps = [(step.operation.name, step.arguments, step.writes) for step in built.steps]
    offers = [(offer.operation.name, sorted(offer.parameters)) for offer in built.offers or ()]
    start = [built.tables, built.now, built.seed, built.settings, built.counters]
    return [built.prompt, *start, steps, built.assertions, built.apps, offers]
