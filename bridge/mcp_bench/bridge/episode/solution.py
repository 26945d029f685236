"""The solution that the oracle plays."""

from __future__ import annotations

import anyio

from mcp_bench.bridge.episode.ending import close
from mcp_bench.bridge.episode.reply_tool import conversing
from mcp_bench.recorder.records import PlannedEpisode
from mcp_bench.servers.contracts import Benchmark, Reference, Suggests, ToolCall
from mcp_bench.servers.errors import BenchError
from mcp_bench.servers.host import NoHost, open_world

MOST_CALLS = 5000
"""A policy that makes more has lost its way."""
POLICY_SECONDS = 600.0


async def solution(
    benchmark: Benchmark, planned: PlannedEpisode, seconds: float = POLICY_SECONDS
) -> Reference | None:
    """Return the reference of a planned episode, as a list of calls.

    A policy is played beforehand, on a world of its own with the same seed.

    Args:
        seconds: that playing the policy may take.

    Raises:
        BenchError: the policy does not end, or the world has none.
    """
    found = await anyio.to_thread.run_sync(benchmark.reference, planned.task)
    if found is None or not found.policy:
        return found
    with anyio.move_on_after(seconds):
        return await played(benchmark, planned)
    raise BenchError(f"{planned.task}: the policy did not end within {seconds:.0f} seconds")


async def played(benchmark: Benchmark, planned: PlannedEpisode) -> Reference:
    """Play the policy of a task's world, and return what it did."""
    asks_nobody = NoHost("a reference that is a policy is played without them")
    real = await open_world(benchmark, planned.task, seed=planned.seed, host=asks_nobody)
    try:
        if not isinstance(real, Suggests):
            raise BenchError(f"{planned.task}: its reference is a policy, but its world has no `suggest`")
        world = conversing(real)
        calls: list[ToolCall] = []
        while len(calls) < MOST_CALLS:
            step = await real.suggest()
            if isinstance(step, str):
                return Reference(calls=tuple(calls), answer=step)
            calls.append(step)
            if (await world.call(step.name, step.arguments)).done:
                return Reference(calls=tuple(calls))
        raise BenchError(f"{planned.task}: the policy did not end within {MOST_CALLS} calls")
    finally:
        await close(real)
