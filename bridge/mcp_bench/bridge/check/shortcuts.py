"""Whether tasks are solved without looking: by their own prompt, or by what solves other tasks.

A policy that always says or does the same scores as often as one task's solution solves another one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from mcp_bench.bridge.check.finding import Finding, judged
from mcp_bench.bridge.check.overlap import few
from mcp_bench.bridge.check.worlds import LendsSandboxes
from mcp_bench.bridge.episode.reply_tool import conversing
from mcp_bench.bridge.interactive.tools import AnsweredWorld
from mcp_bench.servers.contracts import Benchmark, Grade, Reference, Task
from mcp_bench.servers.grading_call import grade_world
from mcp_bench.servers.host import open_world
from mcp_bench.servers.mcp_server.cancellation import is_own_failure
from mcp_bench.servers.mcp_server.world_session import WorldSession, error_text
from mcp_bench.servers.needs import SANDBOX

BORROWED = 2
"""Solutions of other tasks that are tried on each task."""


async def shortcuts(
    benchmark: Benchmark, tasks: Sequence[Task], solutions: Mapping[str, Reference], seed: int
) -> Finding:
    """Play each task blindly. Worlds in sandboxes are left out: they take long, and grade no words."""
    solved: list[str] = []
    broken: list[str] = []
    earned: list[float] = []
    for task in tasks:
        if SANDBOX in task.needs:
            continue
        for what, blind in guesses(task, tasks, solutions):
            try:
                grade = await played(benchmark, task.id, blind, seed)
            except BaseException as error:  # the benchmark's own code
                if not is_own_failure(error):
                    raise
                broken.append(f"{task.id} breaks on {what}: {error_text(error)}")
                continue
            earned.append(grade.partial)
            if grade.strict:
                solved.append(f"{task.id} is solved by {what}")
    if not earned and not broken:
        return Finding("shortcuts", "not checked", "there is no task to try without looking")
    mean = sum(earned) / max(1, len(earned))
    summary = f"partial {mean:.3f}, strict {len(solved)}/{len(earned)} without looking"
    return judged("shortcuts", summary, (), few(solved) + few(broken), {"partial": round(mean, 4)})


def guesses(
    task: Task, tasks: Sequence[Task], solutions: Mapping[str, Reference]
) -> Iterator[tuple[str, Reference]]:
    """Yield what is tried on a task, in words and as a solution."""
    yield "its prompt as the answer", Reference(answer=task.prompt)
    others = [other for other in tasks if other.id != task.id and other.id in solutions]
    others.sort(key=lambda other: other.domain != task.domain)  # those of its domain have its tools
    for other in islice(others, BORROWED):
        yield f"the solution of {other.id}", solutions[other.id]


async def played(benchmark: Benchmark, task_id: str, blind: Reference, seed: int) -> Grade:
    """Return the grade of a solution on a new world."""
    async with LendsSandboxes() as host:
        world = await open_world(benchmark, task_id, seed=seed, host=host)
        try:
            answered = AnsweredWorld(conversing(world))
            session = WorldSession(answered)
            for call in blind.calls:
                await session.call(call.name, call.arguments)
            said = blind.answer if answered.answer is None else answered.answer
            return await grade_world(world, said, ())
        finally:
            await world.close()
