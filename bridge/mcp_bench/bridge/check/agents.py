"""Checks by agents over real MCP: the oracle solves all, doing nothing solves nothing, luck is measured.

They are recorded by `record` in a home of their own, in another process. The recordings are then replayed in
this one, and what the agents saw is searched for what they must not see.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import anyio

from mcp_bench.api import Run, record
from mcp_bench.bridge.check.finding import Finding, judged
from mcp_bench.bridge.check.overlap import few
from mcp_bench.bridge.check.worlds import Opened
from mcp_bench.bridge.replay.regrade import graded_episodes, regrade_all
from mcp_bench.servers.contracts import Benchmark, FindsInHome

JOBS = 2
SHORT_WAIT = 0.1
"""Seconds before an invalid episode is tried again. Nothing here can be better after a longer wait."""


def play(agent: str, benchmark: Benchmark, tasks: Sequence[str], home: Path, seed: int) -> Run:
    """Record an agent on tasks, in the home `home`."""
    return record(
        agent,
        benchmark.name,
        tasks=list(tasks),
        seed=seed,
        jobs=JOBS,
        progress=False,
        home=home,
        env=dict(benchmark.variables) if isinstance(benchmark, FindsInHome) else {},
        retry_wait=SHORT_WAIT,
        isolation=os.environ.get("MCP_BENCH_ISOLATION"),
    )


def invalid(run: Run) -> list[str]:
    return [f"{one.task}: invalid, {one.detail or one.invalid}" for one in run.episodes() if one.invalid]


def oracle(run: Run | None, without: Sequence[str]) -> Finding:
    """Check that every reference solves its task.

    Args:
        without: Tasks that have none.
    """
    left = [f"{len(without)} of the tasks have no reference: {', '.join(without[:3])}"] if without else []
    if run is None:
        return Finding(
            "oracle", "warning", "there is no reference, so nothing shows that a task can be solved"
        )
    episodes = list(run.episodes())
    failed = []
    for one in episodes:
        if one.strict is False:
            broken = [check.name for check in one.assertions if not check.passed]
            failed.append(
                f"{one.task}: partial {one.partial:.2f}; not fulfilled: {', '.join(broken[:3]) or '?'}"
            )
    solved = sum(bool(one.strict) for one in episodes)
    summary = f"strict {solved}/{len(episodes)} over MCP"
    return judged("oracle", summary, few([*invalid(run), *failed]), left)


def noop(run: Run) -> Finding:
    """Check that doing nothing solves nothing."""
    episodes = list(run.episodes())
    passed = [
        f"{one.task} passes when nothing is done: leave it out of tasks()" for one in episodes if one.strict
    ]
    earned = [f"{one.task} gives partial {one.partial:.2f} for nothing" for one in episodes if one.partial]
    solved = sum(bool(one.strict) for one in episodes)
    summary = f"strict {solved}/{len(episodes)} for doing nothing"
    return judged("no-op", summary, few([*invalid(run), *passed]), few([] if passed else earned))


def luck(run: Run) -> Finding:
    """Measure an agent that calls tools at random. A solved task is worth a look, and can be chance."""
    episodes = list(run.episodes())
    solved = [f"{one.task} is solved by random calls" for one in episodes if one.strict]
    raised = [
        f"{call.tool} raises: {short(call.result)}"
        for call in run.calls()
        if call.result.startswith(f"{call.tool} failed: ")
    ]
    mean = sum(one.partial or 0 for one in episodes) / max(len(episodes), 1)
    summary = f"partial {mean:.3f}, strict {len(solved)}/{len(episodes)} with 20 random calls"
    return judged(
        "random agent",
        summary,
        few(invalid(run)),
        few([*solved, *dict.fromkeys(raised)]),
        {"partial": round(mean, 4)},
    )


def determinism(benchmark: Benchmark, runs: Sequence[Run], opened: Opened) -> Finding:
    """Replay what was recorded in another process, and compare every result, state and grade.

    Args:
        opened: What two worlds of one task, opened here, showed.
    """
    different = opened.different
    if benchmark.replay == "none":
        return judged(
            "determinism", "the benchmark declares that it cannot be replayed", different, ["replay is none"]
        )
    episodes = [episode for run in runs for episode in graded_episodes([run.path])]
    replayed = anyio.run(regrade_all, episodes, JOBS, lambda _: None)
    wrong, doubtful = list(different), list[str]()
    for one in replayed:
        task = one.graded.episode.task
        name = f"{task} ({one.graded.episode.agent})"
        if one.status == "not possible":
            wrong.append(f"{name}: {one.detail}")
        for found in one.differences[:1]:
            what = f"{name}: {found.what} {found.where} was {short(found.then)}, now {short(found.now)}"
            said = found.what != "result" and task in opened.reading
            (doubtful if said else wrong).append(f"{what} (a replay has no conversation)" if said else what)
    calls = sum(one.calls for one in replayed)
    summary = f"{len(replayed)} episodes with {calls} calls replayed in another process"
    return judged("determinism", summary, few(wrong), few(doubtful))


def short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
