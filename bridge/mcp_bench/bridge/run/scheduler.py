"""A run: every planned episode, several at once, until all are done or the operator stops it."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

import anyio

from mcp_bench.bridge.episode.attempt import Setup
from mcp_bench.bridge.episode.episode import Outcome, run_episode
from mcp_bench.bridge.process.fork_server_process import ForkServer
from mcp_bench.bridge.process.orphans import adopt_orphans
from mcp_bench.bridge.run.circuit_breaker import Brakes
from mcp_bench.bridge.run.retry import Retries
from mcp_bench.recorder.records import PlannedEpisode
from mcp_bench.recorder.store.run_folder import RunFolder


class Watcher(Protocol):
    """Is told how a run goes on."""

    def began(self, planned: PlannedEpisode, retries: int) -> None:
        """An attempt begins, after so many retries at the same episode."""
        ...

    def ended(self, planned: PlannedEpisode, outcome: Outcome, wait: float | None) -> None:
        """An attempt is over; the next one at its episode begins in `wait` seconds, if there is one."""
        ...


async def run_all(
    setup: Setup, run: RunFolder, jobs: int, retries: Retries, brakes: Brakes, watcher: Watcher
) -> None:
    """Run what is pending in `run`, `jobs` episodes at a time, until all are done or the brakes stop it.

    Raises:
        BenchError: the recording cannot be written. Other episodes are cancelled, what is stored
            stays, and the run can be resumed.
    """
    adopt_orphans()
    pending = iter(run.pending())

    async def take_turns(setup: Setup) -> None:
        for planned, number in pending:  # one iterator for all: each episode is taken once
            if not await settle(setup, run, planned, number, retries, brakes, watcher):
                brakes.cut_short = True
                return

    try:
        async with ForkServer() as forks, anyio.create_task_group() as workers:
            for _ in range(jobs):
                workers.start_soon(take_turns, replace(setup, forks=forks))
    finally:
        with anyio.CancelScope(shield=True):
            if setup.benchmark is not None:
                await setup.benchmark.aclose()


async def settle(
    setup: Setup, run: RunFolder, planned: PlannedEpisode, number: int, retries: Retries, brakes: Brakes,
    watcher: Watcher,
) -> bool:  # fmt: skip
    """Run an episode from attempt `number` on, with its retries; return whether it came to its end.

    The waits hold up this worker only, so that an endpoint that is short of breath is asked less.
    """
    made = 0
    while not brakes.pulled.is_set():
        watcher.began(planned, made)
        outcome = await run_episode(setup, run, planned, number + made)
        brakes.attempt_ended(outcome)
        wait = retries.next_wait(outcome.invalid, made)
        watcher.ended(planned, outcome, wait)
        if wait is None:
            brakes.episode_ended(outcome)
            return True
        with anyio.move_on_after(wait):
            await brakes.pulled.wait()
        made += 1
    return False
