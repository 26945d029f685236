"""Label single calls by a sealed replay that evaluates the assertions after each call."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from pathlib import Path

import anyio
from anyio.from_thread import start_blocking_portal

from mcp_bench.bridge.episode.reply_tool import conversing
from mcp_bench.bridge.interactive.tools import AnsweredWorld
from mcp_bench.bridge.replay.regrade import REPLAY_SECONDS, Benchmarks
from mcp_bench.bridge.replay.replay import Normal, of_the_world, result_differences
from mcp_bench.bridge.roles.stored_host import StoredHost
from mcp_bench.recorder.export.steps import Replayed, Step, step
from mcp_bench.recorder.runs.reader import RunReader, StoredEpisode
from mcp_bench.recorder.store.episode_rows import ExecutedCall
from mcp_bench.servers.contracts import Benchmark, ReportsAssertions, World
from mcp_bench.servers.errors import BenchError
from mcp_bench.servers.grading import AssertionResult
from mcp_bench.servers.host import open_world
from mcp_bench.servers.mcp_server.world_session import WorldSession


def labels(episodes: Iterable[tuple[Path, StoredEpisode]]) -> Generator[Replayed]:
    """Replay episodes, one at a time, and yield the effect of each call.

    Raises:
        BenchError: a benchmark is not installed, has another version, does not support replay, or cannot
            evaluate its assertions after each call.
    """
    benchmarks = Benchmarks()
    with start_blocking_portal() as portal:
        try:
            for path, episode in episodes:
                yield portal.call(_replayed, benchmarks, path, episode)
        finally:
            portal.call(benchmarks.close)


async def _replayed(benchmarks: Benchmarks, path: Path, episode: StoredEpisode) -> Replayed:
    benchmark = await anyio.to_thread.run_sync(benchmarks.fitting, episode)
    if benchmark.replay == "none":  # a stored state can give the grade again, but not what each call did
        raise BenchError(
            f"a world of {benchmark.name} cannot be replayed, so its steps have no labels. Leave it out: "
            "select the other benchmarks with --benchmark NAME"
        )
    with RunReader(path) as reader:
        calls = list(reader.executed_calls(episode.id))
        host = StoredHost(reader.asked(episode.id))
    with anyio.move_on_after(REPLAY_SECONDS) as limit:
        steps, same = await _steps(benchmark, episode, calls, host)
    if limit.cancelled_caught:
        raise BenchError(f"{episode.id}: the replay did not finish within {REPLAY_SECONDS:.0f} seconds")
    return Replayed(calls, steps, same)


async def _steps(
    benchmark: Benchmark, episode: StoredEpisode, calls: Sequence[ExecutedCall], host: StoredHost
) -> tuple[list[Step], bool]:
    normal = Normal(benchmark.replay_ignores)
    world = await open_world(benchmark, episode.task, seed=episode.seed, host=host)
    try:
        session = WorldSession(AnsweredWorld(conversing(world)))
        before = await _assertions(world, benchmark.name)
        steps: list[Step] = []
        same = True
        own = of_the_world(calls, world)
        for call in calls:
            if call not in own:  # a harness answered it
                steps.append(step(before, before, is_error=bool((call.result or {}).get("isError"))))
                continue
            result = await session.call(call.tool, call.arguments)
            if call.result is not None:
                same = same and not any(result_differences(call, call.result, result, normal))
            after = await _assertions(world, benchmark.name)
            steps.append(step(before, after, is_error=result.is_error))
            before = after
        return steps, same
    finally:
        await world.close()


async def _assertions(world: World, benchmark: str) -> Sequence[AssertionResult]:
    found = await world.assertions_now() if isinstance(world, ReportsAssertions) else None
    if found is None:
        raise BenchError(
            f"{benchmark} cannot evaluate its assertions after each call (`World.assertions_now`), so "
            "its steps have no labels. Leave it out: select the other benchmarks with --benchmark NAME"
        )
    return found
