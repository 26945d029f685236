"""The life of one episode: open a world, let the agent work, grade what is there.

The order is the point. Calls under way finish, the wire closes, every process that came from the
agent is gone, and only then is the live world graded: nothing can change it any more. The grade
row comes last of all; an episode without one is not done.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass

import anyio

from mcp_bench.bridge.episode.attempt import Attempt, Setup, told, work
from mcp_bench.bridge.examination import examine
from mcp_bench.recorder.conversations.align import align
from mcp_bench.recorder.conversations.model_turns import join_model_calls
from mcp_bench.recorder.records import EpisodeEnd, EpisodeStart, PlannedEpisode, Termination, new_id, now_us
from mcp_bench.recorder.store.run_folder import RunFolder
from mcp_bench.recorder.trajectory import FunctionSchema, ToolSchema, Usage
from mcp_bench.servers.contracts import JSON, Benchmark, Grade, ToolSpec, World

logger = logging.getLogger(__name__)

GRADE_SECONDS = 300.0
CLOSE_SECONDS = 30.0


@dataclass(frozen=True)
class Outcome:
    """How one episode ended, for the operator's display."""

    episode: str
    task: str
    termination: Termination | None
    invalid: str | None
    detail: str | None
    grade: Grade | None
    calls: int
    seconds: float
    usage: Usage | None = None
    """As far as the agent told it."""


async def run_episode(setup: Setup, run: RunFolder, planned: PlannedEpisode, number: int) -> Outcome:
    """Run attempt `number` at a planned episode, from start to grade.

    Raises:
        BenchError: the recording cannot be written.
    """
    started = time.monotonic()
    episode, attempt, grade = new_id("ep"), Attempt(), None
    if setup.benchmark is None:
        begin(run, episode, planned, number, [], (None, setup.installation.version), setup)
        await play(setup, run, planned, episode, None, attempt)
    else:
        grade = await play_in_world(setup, setup.benchmark, run, planned, number, episode, attempt)
    return Outcome(
        episode=episode,
        task=planned.task,
        termination=attempt.termination,
        invalid=attempt.invalid,
        detail=attempt.detail,
        grade=grade,
        calls=attempt.seen.calls,
        seconds=time.monotonic() - started,
        usage=attempt.transcript.usage,
    )


async def play_in_world(
    setup: Setup, benchmark: Benchmark, run: RunFolder, planned: PlannedEpisode, number: int, episode: str,
    attempt: Attempt,
) -> Grade | None:  # fmt: skip
    """Open the task's world for an attempt, and close it in the end."""
    world: World | None = None
    try:
        try:
            world = await benchmark.open(planned.task, seed=planned.seed)
            tools = world.tools()
        except Exception as error:  # a benchmark's own code: the other episodes may fare better
            attempt.spoil("world_failed", told(error))
            begin(run, episode, planned, number, [], (None, setup.installation.version), setup)
            finish(run, episode, planned, attempt)
            return None
        begin(run, episode, planned, number, tools, (None, setup.installation.version), setup)
        return await play(setup, run, planned, episode, world, attempt)
    finally:
        if world is not None:
            await close(world)


async def play(
    setup: Setup, run: RunFolder, planned: PlannedEpisode, episode: str, world: World | None, attempt: Attempt
) -> Grade | None:
    """Let the agent work; store how it went, and where there is a world the grade, unless it is invalid."""
    verdict: tuple[Grade, JSON] | None = None
    try:
        await work(setup, run, planned, episode, world, attempt)
        if fault := attempt.transcript.fault:
            attempt.spoil(fault.kind, fault.detail)
        if not attempt.seen.greeted:
            apart = "" if setup.level.name == "none" else f" Was {setup.level.name} in its way?"
            attempt.spoil("never_connected", f"the agent never connected: was its configuration read?{apart}")
        elif world is not None and not attempt.seen.ready:
            attempt.spoil("never_connected", "the agent never listed the tools: was its configuration read?")
        if attempt.invalid is None and world is not None:
            verdict = await judge(world, attempt)
    except anyio.get_cancelled_exc_class():
        attempt.termination = "cancelled"
        attempt.spoil("cancelled", "stopped by the operator")
        finish(run, episode, planned, attempt)
        raise
    finish(run, episode, planned, attempt)
    await examine(run, episode)
    if verdict is None:
        return None
    seal(run, episode, *verdict)
    return verdict[0]


def seal(run: RunFolder, episode: str, grade: Grade, state: JSON) -> None:
    """Store the grade of an episode that is over: the last thing of all."""
    run.grades.put(
        episode,
        partial=grade.partial,
        strict=grade.strict,
        assertions=[assertion.model_dump(mode="json") for assertion in grade.assertions],
        metrics=dict(grade.metrics),
        grader_version=grade.grader_version,
        final_state=state,
        graded_us=now_us(),
    )


async def close(world: World) -> None:
    """Close a world whose episode is stored: what goes wrong is logged, and holds nobody up."""
    with anyio.move_on_after(CLOSE_SECONDS, shield=True) as scope:
        try:
            await world.close()
        except Exception:
            logger.exception("a world could not be closed")
    if scope.cancelled_caught:
        logger.warning("a world was not closed within %.0f seconds", CLOSE_SECONDS)


async def judge(world: World, attempt: Attempt) -> tuple[Grade, JSON] | None:
    """Grade the final state and take a snapshot of it; a grader that fails spoils the episode."""
    try:
        with anyio.fail_after(GRADE_SECONDS):
            return await world.grade(attempt.transcript.answer or ""), await world.snapshot()
    except TimeoutError:
        attempt.spoil("grader_failed", f"no grade within {GRADE_SECONDS:.0f} seconds")
    except Exception as error:  # a benchmark's own code: whatever it raises, the agent is not to blame
        attempt.spoil("grader_failed", told(error))
    return None


def begin(
    run: RunFolder,
    episode: str,
    planned: PlannedEpisode,
    number: int,
    tools: Sequence[ToolSpec],
    client: tuple[str | None, str] | None = None,
    setup: Setup | None = None,
) -> None:
    """Store that an attempt begins; `client` is the agent's name, where only it knows that, and version."""
    run.recording.begin_episode(
        EpisodeStart(
            id=episode,
            task=planned.task,
            split=planned.split,
            domain=planned.domain,
            prompt=planned.prompt,
            seed=planned.seed,
            repeat=planned.repeat,
            attempt=number,
            started_us=now_us(),
            agent=client[0] if client else None,
            agent_version=client[1] if client else None,
            isolation=setup.level.name if setup else None,
            probes=dict(setup.probes) if setup else {},
            tools=[
                ToolSchema(
                    function=FunctionSchema(
                        name=tool.name, description=tool.description, parameters=dict(tool.input_schema)
                    )
                )
                for tool in tools
            ],
        )
    )


def finish(run: RunFolder, episode: str, planned: PlannedEpisode, attempt: Attempt) -> None:
    transcript = attempt.transcript
    messages = align(planned.prompt, transcript.messages, run.recording.recorded_calls(episode))
    messages = join_model_calls(run.recording, episode, messages)
    run.recording.end_episode(
        episode,
        EpisodeEnd(
            termination=attempt.termination,
            invalid=attempt.invalid,
            invalid_detail=attempt.detail,
            exit_code=attempt.exit_code,
            answer=transcript.answer,
            model=transcript.model,
            usage=transcript.usage,
            connections=attempt.seen.connections,
            ended_us=now_us(),
        ),
        messages,
    )
