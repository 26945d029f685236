"""A run: every planned episode, several at once, until all are done or the operator stops it."""

from __future__ import annotations

from collections.abc import Callable

import anyio

from mcp_bench.bridge.attempt import Setup
from mcp_bench.bridge.episode import Outcome, run_episode
from mcp_bench.bridge.orphans import adopt_orphans
from mcp_bench.recorder.run_folder import RunFolder


async def run_all(setup: Setup, run: RunFolder, jobs: int, report: Callable[[Outcome], None]) -> None:
    """Run what is pending in `run`, `jobs` episodes at a time; `report` is called after each.

    Raises:
        BenchError: the recording cannot be written. Other episodes are cancelled, what is stored
            stays, and the run can be resumed.
    """
    adopt_orphans()
    pending = iter(run.pending())

    async def take_turns() -> None:
        for planned, number in pending:  # one iterator for all: each episode is taken once
            report(await run_episode(setup, run, planned, number))

    try:
        async with anyio.create_task_group() as workers:
            for _ in range(jobs):
                workers.start_soon(take_turns)
    finally:
        with anyio.CancelScope(shield=True):
            if setup.benchmark is not None:
                await setup.benchmark.aclose()
