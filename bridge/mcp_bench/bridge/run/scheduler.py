"""Run all planned episodes, several at a time, until all are done or the run is stopped."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

import anyio

from mcp_bench.bridge.engines.engine import Engine
from mcp_bench.bridge.episode.episode import Outcome
from mcp_bench.bridge.run.circuit_breaker import CircuitBreaker
from mcp_bench.bridge.run.retry import Retries
from mcp_bench.recorder.records import PlannedEpisode
from mcp_bench.recorder.runs.run_folder import RunFolder


class Watcher(Protocol):
    """Receives the progress of a run."""

    def began(self, planned: PlannedEpisode, retries: int) -> None:
        """An attempt starts, after `retries` earlier ones at the same episode."""
        ...

    def ended(self, planned: PlannedEpisode, outcome: Outcome, wait: float | None) -> None:
        """An attempt ended. The next attempt starts in `wait` seconds; None: there is no retry.

        `AFTER_THE_OTHERS`: it starts when all other episodes have had their turn.
        """
        ...


AFTER_THE_OTHERS = math.inf


@dataclass
class PutOff:
    """Episodes whose agents reported, in every attempt, a failure that the referee did not see.

    An agent can report one to be spared a task that it finds hard. Therefore, such an episode gets one more
    attempt when all others are over. If the agent works at all (another episode of the run is graded), that
    attempt is graded whatever the agent reports, so that no episode leaves the scores on an agent's word.
    """

    possible: bool
    """Whether the run is graded, and has other episodes that can show that the agent works."""
    agent_works: bool
    episodes: list[tuple[PlannedEpisode, int]] = field(default_factory=list)
    """With the numbers of their next attempts."""


async def run_all(
    engine: Engine, run: RunFolder, jobs: int, retries: Retries, breaker: CircuitBreaker, watcher: Watcher
) -> None:
    """Run all pending episodes, `jobs` at a time, until all are done or the circuit breaker trips.

    Raises:
        BenchError: the recording cannot be written. Other episodes are cancelled. Stored data stays, and
            the run can be resumed.
    """
    put_off = PutOff(run.info.graded and len(run.info.plan) > 1, agent_works=bool(run.done()))

    async def work_through(pending: Iterator[tuple[PlannedEpisode, int]], last: bool) -> None:
        for planned, number in pending:  # all workers share one iterator, so each episode runs once
            if not await run_with_retries(
                engine, planned, number, retries, breaker, watcher, put_off, last=last
            ):
                breaker.cut_short = True
                return

    async def work_in_parallel(pending: Iterable[tuple[PlannedEpisode, int]], *, last: bool) -> None:
        shared = iter(pending)
        async with anyio.create_task_group() as workers:
            for _ in range(jobs):
                workers.start_soon(work_through, shared, last)

    await work_in_parallel(run.pending(), last=False)
    if put_off.episodes and put_off.agent_works:
        await work_in_parallel(put_off.episodes, last=True)


async def run_with_retries(
    engine: Engine,
    planned: PlannedEpisode,
    number: int,
    retries: Retries,
    breaker: CircuitBreaker,
    watcher: Watcher,
    put_off: PutOff,
    *,
    last: bool,
) -> bool:
    """Run an episode, starting with attempt `number`; return False if the circuit breaker cut it short.

    `last`: grade it even if its agent reports a failure. Else such an episode is put off in the end.

    A wait before a retry blocks this worker, so an overloaded endpoint gets fewer requests.
    """
    made = 0
    while not breaker.tripped.is_set():
        watcher.began(planned, made + last)
        outcome = await engine.attempt(planned, number + made, claims_count=last)
        breaker.attempt_ended(outcome)
        wait = retries.next_wait(outcome.invalid, made)
        if outcome.grade is not None and outcome.claim is None:
            put_off.agent_works = True
        if wait is None and outcome.on_its_word and put_off.possible and not last:
            put_off.episodes.append((planned, number + made + 1))
            wait = AFTER_THE_OTHERS
        watcher.ended(planned, outcome, wait)
        if wait in (None, AFTER_THE_OTHERS):
            breaker.episode_ended(outcome)
            return True
        with anyio.move_on_after(wait):
            await breaker.tripped.wait()
        made += 1
    return False
