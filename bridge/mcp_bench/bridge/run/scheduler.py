"""Run all planned episodes, several at a time, until all are done or the run is stopped."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

import anyio

from mcp_bench.bridge.episode.attempt import Setup
from mcp_bench.bridge.episode.episode import Outcome, run_episode
from mcp_bench.bridge.process.fork_server_process import ForkServer
from mcp_bench.bridge.process.orphans import adopt_orphans
from mcp_bench.bridge.run.circuit_breaker import CircuitBreaker
from mcp_bench.bridge.run.retry import Retries
from mcp_bench.recorder.records import PlannedEpisode
from mcp_bench.recorder.store.run_folder import RunFolder


class Watcher(Protocol):
    """Receives the progress of a run."""

    def began(self, planned: PlannedEpisode, retries: int) -> None:
        """An attempt starts, after `retries` earlier ones at the same episode."""
        ...

    def ended(self, planned: PlannedEpisode, outcome: Outcome, wait: float | None) -> None:
        """An attempt ended. The next attempt starts in `wait` seconds; None: there is no retry."""
        ...


async def run_all(
    setup: Setup, run: RunFolder, jobs: int, retries: Retries, breaker: CircuitBreaker, watcher: Watcher
) -> None:
    """Run all pending episodes, `jobs` at a time, until all are done or the circuit breaker trips.

    Raises:
        BenchError: the recording cannot be written. Other episodes are cancelled. Stored data stays, and
            the run can be resumed.
    """
    adopt_orphans()
    pending = iter(run.pending())

    async def work_through(setup: Setup) -> None:
        for planned, number in pending:  # all workers share one iterator, so each episode runs once
            if not await run_with_retries(setup, run, planned, number, retries, breaker, watcher):
                breaker.cut_short = True
                return

    try:
        async with ForkServer() as fork_server, anyio.create_task_group() as workers:
            for _ in range(jobs):
                workers.start_soon(work_through, replace(setup, fork_server=fork_server))
    finally:
        with anyio.CancelScope(shield=True):
            if setup.benchmark is not None:
                await setup.benchmark.aclose()


async def run_with_retries(
    setup: Setup, run: RunFolder, planned: PlannedEpisode, number: int, retries: Retries,
    breaker: CircuitBreaker, watcher: Watcher,
) -> bool:  # fmt: skip
    """Run an episode, starting with attempt `number`; return False if the circuit breaker cut it short.

    A wait before a retry blocks this worker, so an overloaded endpoint gets fewer requests.
    """
    made = 0
    while not breaker.tripped.is_set():
        watcher.began(planned, made)
        outcome = await run_episode(setup, run, planned, number + made)
        breaker.attempt_ended(outcome)
        wait = retries.next_wait(outcome.invalid, made)
        watcher.ended(planned, outcome, wait)
        if wait is None:
            breaker.episode_ended(outcome)
            return True
        with anyio.move_on_after(wait):
            await breaker.tripped.wait()
        made += 1
    return False
