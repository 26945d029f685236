"""Checks on worlds that are opened here, without an agent: schemas, determinism of the start, speed."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from statistics import median
from typing import Self

from mcp_bench.bridge.check.finding import Finding, judged
from mcp_bench.bridge.episode.plan import tools_of
from mcp_bench.bridge.episode.reply_tool import conversing
from mcp_bench.bridge.episode.solution import solution
from mcp_bench.bridge.interactive.tools import AnsweredWorld
from mcp_bench.bridge.replay.regrade import as_stored, facts
from mcp_bench.bridge.replay.replay import Normal
from mcp_bench.bridge.sandbox.runners.episode_sandboxes import EpisodeSandboxes
from mcp_bench.recorder.records import PlannedEpisode
from mcp_bench.servers.contracts import Benchmark, Converses, Reference, Task, ToolSpec
from mcp_bench.servers.grading_call import grade_world, reads_transcript
from mcp_bench.servers.host import Host, NoHost, open_world
from mcp_bench.servers.mcp_server.cancellation import is_own_failure
from mcp_bench.servers.mcp_server.world_session import WorldSession
from mcp_bench.servers.remote.world import RemoteWorld
from mcp_bench.servers.sandbox import Sandbox, SandboxSpec

PORTABLE = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""Tool names that every model API takes."""
SLOW_OPEN, SLOW_CALL = 10.0, 5.0
"""Seconds."""


@dataclass
class Opened:
    """What the worlds of a sample showed."""

    tools: dict[str, ToolSpec] = field(default_factory=dict)
    solutions: dict[str, Reference] = field(default_factory=dict)
    """By the task's id, as lists of calls; tasks without one are not in it."""
    broken: dict[str, str] = field(default_factory=dict)
    """Why the worlds of a task break, by its id."""
    different: list[str] = field(default_factory=list)
    """Two worlds of one task and seed that differ."""
    reading: set[str] = field(default_factory=set)
    """Tasks whose worlds follow the conversation. A replay has only the calls."""
    opens: list[float] = field(default_factory=list)
    """Seconds, like the others."""
    calls: list[float] = field(default_factory=list)
    grades: list[float] = field(default_factory=list)


class LendsSandboxes(NoHost):
    """A host with sandboxes and without models. They end with the block."""

    def __init__(self) -> None:
        super().__init__("check-benchmark asks no models")
        self._sandboxes = EpisodeSandboxes()

    async def sandbox(self, spec: SandboxSpec) -> Sandbox:
        return await self._sandboxes.start(spec)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._sandboxes.aclose()


async def open_all(benchmark: Benchmark, tasks: Sequence[Task], seed: int) -> Opened:
    """Open two worlds of each task, play the reference on the first, and grade it."""
    found = Opened()
    for task in tasks:
        try:
            async with LendsSandboxes() as host:
                await _open(benchmark, task, seed, host, found)
        except BaseException as error:
            if not is_own_failure(error):
                raise
            found.broken[task.id] = f"{type(error).__name__}: {error}"
    return found


async def _open(benchmark: Benchmark, task: Task, seed: int, host: Host, found: Opened) -> None:
    planned = PlannedEpisode(
        task=task.id, split=task.split, domain=task.domain, prompt=task.prompt, seed=seed
    )
    solved = await solution(benchmark, planned)
    if solved is not None:
        found.solutions[task.id] = solved
    async with AsyncExitStack() as closing:
        start = time.perf_counter()
        world = await open_world(benchmark, task.id, seed=seed, host=host)
        closing.push_async_callback(world.close)
        found.opens.append(time.perf_counter() - start)
        twin = await open_world(benchmark, task.id, seed=seed, host=host)
        closing.push_async_callback(twin.close)
        if isinstance(world, Converses) or (not isinstance(world, RemoteWorld) and reads_transcript(world)):
            found.reading.add(task.id)
        if list(world.tools()) != list(twin.tools()):
            found.different.append(f"{task.id}: two worlds have different tools")
        normal = Normal(benchmark.replay_ignores)
        states = [normal.value(as_stored(await one.snapshot())) for one in (world, twin)]
        if benchmark.replay != "none" and states[0] != states[1]:
            found.different.append(f"{task.id}: two new worlds have different states")
        session = WorldSession(AnsweredWorld(conversing(world)))
        found.tools.update((tool.name, tool) for tool in session.tools)
        for call in solved.calls if solved else ():
            start = time.perf_counter()
            await session.call(call.name, call.arguments)
            found.calls.append(time.perf_counter() - start)
        start = time.perf_counter()
        answer = solved.answer if solved else ""
        grades = [await grade_world(world, answer, ())]
        found.grades.append(time.perf_counter() - start)
        if grades[0].certain:
            grades.append(await grade_world(world, answer, ()))
        stored = [normal.value(as_stored(facts(grade))) for grade in grades]
        if stored[0] != stored[-1]:
            found.different.append(f"{task.id}: the same state has two grades")


def schemas(benchmark: Benchmark, opened: Opened) -> Finding:
    """Check the tools of the worlds. That they compile was checked when the worlds opened."""
    listed = {tool.name for tool in tools_of(benchmark)}
    added = {"submit_answer", "reply_to_user"}
    failures = [f"{task}: {why}" for task, why in opened.broken.items()]
    warnings = []
    for name, tool in sorted(opened.tools.items()):
        if name not in listed | added:
            failures.append(f"{name} is a tool of a world, but not in the benchmark's tools()")
        if not PORTABLE.fullmatch(name):
            failures.append(f"{name!r} is no name for a tool: letters, digits, _ and -, at most 64")
        if not tool.description.strip():
            warnings.append(f"{name} has no description")
        if tool.checked and tool.input_schema.get("additionalProperties") is not False:
            warnings.append(f"{name} takes arguments that its schema does not name (additionalProperties)")
    count = f"{len(opened.tools)} tools"
    return judged("schemas", count, failures, warnings)


def speed(opened: Opened, episodes: Sequence[float]) -> Finding:
    """Report the times, in this process or its worker, and of the oracle's episodes over MCP."""
    times = {"open": opened.opens, "call": opened.calls, "grade": opened.grades}
    figures: dict[str, float] = {}
    for name, seconds in times.items():
        if seconds:
            figures[f"{name}_ms"] = round(median(seconds) * 1000, 2)
            figures[f"{name}_ms_max"] = round(max(seconds) * 1000, 2)
    if episodes:
        figures["episode_s"] = round(median(episodes), 2)
    warnings = []
    if opened.opens and median(opened.opens) > SLOW_OPEN:
        warnings.append(f"a world takes {median(opened.opens):.0f} s to open: set Task.limits")
    if opened.calls and max(opened.calls) > SLOW_CALL:
        warnings.append(f"a call took {max(opened.calls):.0f} s: agents may give up on it")
    text = ", ".join(f"{name} {figures[f'{name}_ms']:g} ms" for name in times if f"{name}_ms" in figures)
    over = f"; an oracle episode over MCP {figures['episode_s']:g} s" if episodes else ""
    return judged("speed", f"medians: {text}{over}", (), warnings, figures)
