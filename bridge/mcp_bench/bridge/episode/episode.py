"""Run one episode: open a world, let the agent work, grade the final state.

The order matters. Running calls finish, the wire closes, and every process that came from the agent is gone.
Only then is the live world graded, so nothing can change it any more. The grade row is stored last; an
episode without one is not done.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio

from mcp_bench.bridge.episode.attempt import Attempt, Setup, blame, error_text
from mcp_bench.bridge.episode.ending import close
from mcp_bench.bridge.episode.plan import asked_again
from mcp_bench.bridge.episode.reply_tool import continues, conversing, instructed
from mcp_bench.bridge.episode.work import work
from mcp_bench.bridge.harness.world import equipped, with_instructions
from mcp_bench.bridge.roles.episode_host import EpisodeHost
from mcp_bench.recorder.conversations.align import align
from mcp_bench.recorder.conversations.model_turns import join_model_calls
from mcp_bench.recorder.conversations.user_turns import REPLY_TOOL, with_user_turns
from mcp_bench.recorder.isolation_levels import OPEN
from mcp_bench.recorder.records import EpisodeEnd, EpisodeStart, PlannedEpisode, Termination, new_id, now_us
from mcp_bench.recorder.runs.reader import RunReader
from mcp_bench.recorder.runs.run_folder import RunFolder
from mcp_bench.recorder.scan.scan import scan
from mcp_bench.recorder.taint import Scan
from mcp_bench.recorder.trajectory import FunctionSchema, Message, ToolSchema, Usage
from mcp_bench.servers.contracts import JSON, Benchmark, ChatMessage, ToolCall, ToolSpec, World
from mcp_bench.servers.errors import BenchError, SandboxLostError, WorkerDiedError
from mcp_bench.servers.grading import Grade
from mcp_bench.servers.grading_call import grade_world, reads_transcript
from mcp_bench.servers.host import open_world
from mcp_bench.servers.mcp_server.cancellation import is_own_failure

logger = logging.getLogger(__name__)

GRADE_SECONDS = 300.0


@dataclass(frozen=True)
class Outcome:
    """Result of one attempt, for the progress display."""

    episode: str
    task: str
    termination: Termination | None
    invalid: str | None
    detail: str | None
    grade: Grade | None
    calls: int
    seconds: float
    usage: Usage | None = None
    """As far as the agent reported it."""
    on_its_word: bool = False
    """Whether `invalid` rests on what the agent did or wrote."""
    asked_usd: float = 0.0
    """What the models of the world's roles cost, as far as it is known."""

    @property
    def claim(self) -> str | None:
        """The failure that the agent of a graded attempt reported."""
        return self.detail if self.invalid is None else None


async def run_episode(
    setup: Setup, run: RunFolder, planned: PlannedEpisode, number: int, *, claims_count: bool
) -> Outcome:
    """Run attempt `number` at a planned episode, from start to grade.

    Args:
        claims_count: grade an attempt even if the agent reports a failure that the referee did not see.

    Raises:
        BenchError: the recording cannot be written.
    """
    started = time.monotonic()
    episode, attempt, world, tools = new_id("ep"), Attempt(), None, list[ToolSpec]()
    grade: Grade | None = None
    seed = planned.seed + planned.repeat
    host = EpisodeHost(
        setup.roles, seed=seed, store=partial(run.grades.put_asked, episode), engine=setup.sandbox
    )
    try:
        if setup.benchmark is not None and planned.error is not None:
            planned = await asked_again(setup.benchmark, planned)
        planned = with_instructions(planned, setup.harness)
        if planned.error is not None:
            attempt.invalidate("world_failed", planned.error)
        elif setup.benchmark is not None:
            try:
                world = await opened(setup.benchmark, planned, host)
                native = continues(setup.agent, world)
                shown = equipped(conversing(world, listed=not native), setup.harness)
                tools = [ToolSpec.model_validate(tool) for tool in shown.tools()]
                planned = planned if native else instructed(planned, world)
            except BaseException as error:  # a benchmark's own code: other episodes can still work
                if not is_own_failure(error):
                    raise
                blame(attempt, host)
                attempt.invalidate("world_failed", error_text(error))
        version = (None, setup.installation.version)
        begin(run, episode, planned, number, tools, version, setup, lent=host.begin())
        if attempt.invalid is None:
            grade = await play(setup, run, planned, episode, world, attempt, host, claims_count=claims_count)
        else:
            finish(run, episode, planned, attempt)
    finally:
        if world is not None:
            await close(world)
        await host.aclose()
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
        on_its_word=attempt.on_its_word,
        asked_usd=host.cost,
    )


async def opened(benchmark: Benchmark, planned: PlannedEpisode, host: EpisodeHost) -> World:
    """Open the world of an episode.

    Raises:
        BenchError: it did not open within its time.
    """
    seconds, world = planned.limits.open_seconds, None
    with anyio.move_on_after(seconds):
        world = await open_world(benchmark, planned.task, seed=planned.seed, host=host)
    if world is None:
        raise BenchError(f"the world of {planned.task} did not open within {seconds:g} seconds")
    return world


async def play(
    setup: Setup,
    run: RunFolder,
    planned: PlannedEpisode,
    episode: str,
    world: World | None,
    attempt: Attempt,
    host: EpisodeHost,
    *,
    claims_count: bool,
) -> Grade | None:
    """Let the agent work, then store the episode, its scan for taint, and the grade of a valid one."""
    graded: tuple[Grade, JSON] | None = None
    try:
        await work(setup, run, planned, episode, world, attempt, host)
        blame(attempt, host)
        if fault := attempt.transcript.fault:
            seen = fault.kind == "endpoint_error" and attempt.endpoint_failed
            attempt.invalidate(fault.kind, fault.detail, on_its_word=not (seen or fault.ours))
        if not attempt.seen.greeted:
            hint = "" if setup.level.name in OPEN else f" Did {setup.level.name} isolation block it?"
            attempt.invalidate(
                "never_connected",
                f"the agent never connected: was its configuration read?{hint}",
                on_its_word=True,
            )
        elif world is not None and not attempt.seen.ready:
            attempt.invalidate(
                "never_connected",
                "the agent never listed the tools: was its configuration read?",
                on_its_word=True,
            )
        if (claims_count or attempt.killed_all) and attempt.on_its_word:
            attempt.count()
        if attempt.invalid is None and world is not None:
            graded = await judge(
                world, attempt, planned, partial(conversation, run, episode, planned, attempt), host
            )
    except anyio.get_cancelled_exc_class():
        attempt.termination = "cancelled"
        attempt.invalidate("cancelled", "stopped by the operator")
        finish(run, episode, planned, attempt)
        raise
    finish(run, episode, planned, attempt)
    await store_scan(run, episode)
    if graded is None:
        return None
    seal(run, episode, *graded, attempt.rewards)
    return graded[0]


def begin(
    run: RunFolder,
    episode: str,
    planned: PlannedEpisode,
    number: int,
    tools: Sequence[ToolSpec],
    client: tuple[str | None, str] | None = None,
    setup: Setup | None = None,
    lent: Mapping[str, Any] | None = None,
) -> None:
    """Store the start of an attempt.

    Args:
        lent: what the sandboxes of its world enforce, as probes by name.
        client: Name (None: the run's agent) and version of the client.
    """
    run.recording.begin_episode(
        EpisodeStart(
            id=episode,
            task=planned.task,
            split=planned.split,
            domain=planned.domain,
            prompt=planned.prompt,
            system=planned.system,
            trainable=planned.trainable,
            seed=planned.seed,
            repeat=planned.repeat,
            attempt=number,
            started_us=now_us(),
            agent=client[0] if client else None,
            agent_version=client[1] if client else None,
            isolation=setup.level.name if setup else None,
            probes={**(setup.probes if setup else {}), **(lent or {})},
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


async def judge(
    world: World,
    attempt: Attempt,
    planned: PlannedEpisode,
    said: Callable[[], list[Message]],
    host: EpisodeHost | None = None,
) -> tuple[Grade, JSON] | None:
    """Grade the final state and take a snapshot of it; a failing grader invalidates the attempt.

    Args:
        said: Returns the conversation, for worlds that grade it.
        host: The world's. If a model answered it, the grade is not certain.
    """
    seconds = planned.limits.grade_seconds or GRADE_SECONDS
    try:
        transcript = chat_messages(said()) if reads_transcript(world) else []
        with anyio.move_on_after(seconds):
            grade = await grade_world(world, attempt.transcript.answer or "", transcript)
            state = await world.snapshot()
            json.dumps(state)  # what cannot be stored must fail here
            uncertain = {"certain": False} if host is not None and host.answered else {}
            checked = Grade.model_validate(grade.model_dump() | uncertain)
            return None if host is not None and blame(attempt, host) else (checked, state)
        attempt.invalidate("grader_failed", f"no grade within {seconds:g} seconds")
    except (SandboxLostError, WorkerDiedError) as error:  # with what was to be graded
        attempt.invalidate("world_failed", str(error))
    except BaseException as error:  # a benchmark's own code: not the agent's fault
        if not is_own_failure(error):
            raise
        if host is not None:
            blame(attempt, host)
        attempt.invalidate("grader_failed", error_text(error))
    return None


def conversation(run: RunFolder, episode: str, planned: PlannedEpisode, attempt: Attempt) -> list[Message]:
    """Return the agent's account of the attempt, with the calls and results of the recording."""
    calls = run.recording.recorded_calls(episode)
    if attempt.resumed:
        calls = [call for call in calls if call.tool != REPLY_TOOL]
    return align(planned.prompt, attempt.transcript.messages, calls, system=planned.system)


def chat_messages(messages: Sequence[Message]) -> list[ChatMessage]:
    """Return a conversation in the form that a world's `grade` reads, with turns of its user."""
    return [
        ChatMessage(
            role=message.role,
            content=message.content or "",
            calls=tuple(
                ToolCall(name=call.function.name, arguments=call.function.arguments)
                for call in message.tool_calls
            ),
            name=message.name,
        )
        for message in with_user_turns(messages)
    ]


def finish(run: RunFolder, episode: str, planned: PlannedEpisode, attempt: Attempt) -> None:
    transcript = attempt.transcript
    messages = join_model_calls(run.recording, episode, conversation(run, episode, planned, attempt))
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


async def store_scan(run: RunFolder, episode: str) -> None:
    """Scan an episode for attempts to read its grade, and seal the verdict. A scan that fails is `unknown`.

    Raises:
        StorageError: the verdict cannot be stored.
    """

    def scan_stored() -> Scan:
        run.recording.flush()
        with RunReader(run.path) as reader:  # its own connection, so other episodes can go on recording
            return scan(reader, episode)

    try:
        with anyio.CancelScope(shield=True):  # the grade comes next and must not be lost
            verdict = await anyio.to_thread.run_sync(scan_stored)
    except Exception:  # what an agent wrote must not cost the episode its grade
        logger.exception("episode %s could not be scanned", episode)
        verdict = Scan("unknown")
    run.grades.put_scan(episode, verdict, now_us())


def seal(
    run: RunFolder, episode: str, grade: Grade, state: JSON, rewards: Sequence[float | None] = ()
) -> None:
    """Store the grade and the steps' rewards, as the last step of an episode."""
    numbered = {number: reward for number, reward in enumerate(rewards, 1) if reward is not None}
    run.grades.put(episode, grade, state, now_us(), rewards=numbered)
