"""Run all pending episodes and report the result."""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict

import anyio
import click

from mcp_bench.bridge.engines.engine import Engine, ThisProcess
from mcp_bench.bridge.engines.on_ray.engine import OnRay
from mcp_bench.bridge.engines.parallel import Parallel, referees
from mcp_bench.bridge.engines.referees import Referees
from mcp_bench.bridge.episode.attempt import Setup
from mcp_bench.bridge.isolation.canaries import canaries_in_place
from mcp_bench.bridge.run.circuit_breaker import CircuitBreaker, Spending
from mcp_bench.bridge.run.display import Display
from mcp_bench.bridge.run.events import SIGNAL, RunEnded
from mcp_bench.bridge.run.progress import Progress
from mcp_bench.bridge.run.retry import Retries
from mcp_bench.bridge.run.scheduler import run_all
from mcp_bench.bridge.sandbox.runners.configured import configured
from mcp_bench.recorder.counted import counted
from mcp_bench.recorder.isolation_levels import IN_PROCESS
from mcp_bench.recorder.runs.reader import RunReader
from mcp_bench.recorder.runs.run_folder import RunFolder
from mcp_bench.servers.needs import SANDBOX
from mcp_bench.servers.terminal.sanitize import sanitize_line


def run_and_report(
    setup: Setup, run: RunFolder, parallel: Parallel, max_cost: float | None, as_json: bool
) -> int:
    """Run every pending episode and print a summary; return the exit code.

    `max_cost` is in US dollars and overrides the run's own limit.
    """
    with redirect_stdout(sys.stderr):  # benchmarks and plugins may print
        ended = run_to_end(setup, run, parallel, max_cost)
    if as_json:
        click.echo(json.dumps(asdict(ended)))
    return 1 if ended.stopped or ended.invalid else 0


def sandbox_slots(run: RunFolder) -> int:
    """Return how many episodes can have a sandbox at a time, by the operator's runners."""
    runners, pending = configured(), run.pending()
    if not runners or not any(SANDBOX in planned.needs for planned, _ in pending):
        return sys.maxsize
    return sum(runner.slots for runner in runners)


def run_to_end(
    setup: Setup,
    run: RunFolder,
    parallel: Parallel,
    max_cost: float | None,
    display_of: Callable[[int, int, str, Callable[[], int]], Display] = Display,
    go_on: str | None = None,
) -> RunEnded:
    """Run every pending episode, show the progress and the result on stderr, and return the result.

    Args:
        setup: of its episodes.
        run: open for writing.
        parallel: how many episodes at a time, and in how many processes.
        max_cost: in US dollars; overrides the run's own limit.
        display_of: makes the display, from what `Display` takes.
        go_on: the command that continues, if it is not the one that resumes this run.
    """
    if not gc.get_freeze_count():  # not again in a later run, whose garbage has to be collected
        gc.freeze()  # modules are never collected; looking at them takes a sixth of an episode's CPU time
    resume = go_on or f"mcp-bench record --resume {run.id}{parallel.words()}"
    total, resumed = len(run.pending()), bool(run.recording.attempts())
    slots = sandbox_slots(run) if parallel.jobs > 1 and not parallel.ray else sys.maxsize
    jobs, why_fewer = jobs_within(parallel.jobs, setup.one_at_a_time, slots)
    title = f"{run.info.agent} on {run.info.benchmark if run.info.graded else 'a server'}"
    settings = run.info.settings
    retries = Retries(settings.retries or 0, settings.retry_wait or 0)
    spending = Spending(max_cost or settings.max_cost, *run.recording.reported_costs())
    spending.spent += run.grades.asked_cost()
    breaker = CircuitBreaker(jobs, spending)
    # slots of runners are counted within one process
    processes = 1 if slots < sys.maxsize else referees(parallel.referees, jobs, total)
    engines: list[Engine] = []
    with display_of(total, jobs, title, lambda: sum(one.calls_made for one in engines)) as display:
        engines.append(make_engine(setup, run, parallel, processes, display.say))
        left = f"{counted(total, 'episode')}, {jobs} at a time"
        display.say(f"{run.id}: {title}, {left if total else 'complete: nothing was left to record'}")
        if processes > 1 and not parallel.ray:
            display.say(f"{processes} referee processes, each with its part of the episodes")
        for line in setup_lines(setup, run.info.agent_version, why_fewer):
            display.say(line)
        stopped = True
        try:
            with canaries_in_place(run):
                stopped = anyio.run(
                    run_until_stopped, engines[0], run, jobs, retries, breaker, display, resume
                )
        finally:
            if stopped:
                display.say(f"Stopped. Resume with: {resume}")
    whole = display.progress
    if resumed:
        with RunReader(run.path) as reader:
            whole = Progress.of(reader.episodes())
    tainted = run.grades.tainted()
    report_end(setup, run, total, display.progress, whole, tainted)
    if not stopped and (text := advice(breaker, spending, display.progress, resume, go_on is None)):
        click.echo(sanitize_line(text), err=True)
    stopped_by = SIGNAL if stopped else breaker.reason if breaker.cut_short else None
    return summary(run, display.progress.done, whole, len(tainted), stopped_by)


def make_engine(
    setup: Setup, run: RunFolder, parallel: Parallel, processes: int, say: Callable[[str], object]
) -> Engine:
    """Return what records the episodes. `say` shows a line to the user."""
    if parallel.ray:
        return OnRay(setup, run, parallel.address, say)
    return Referees(setup, run, processes, say) if processes > 1 else ThisProcess(setup, run)


def advice(
    breaker: CircuitBreaker, spending: Spending, progress: Progress, resume: str, own_limit: bool
) -> str:
    """Return what to do about episodes that are missing or invalid; empty without any.

    Args:
        breaker: whether the run was cut short.
        spending: whether its cost limit is the reason.
        progress: of the episodes that were left to record.
        resume: the command that continues.
        own_limit: whether that command takes another cost limit.
    """
    if breaker.cut_short and spending.limit_reached:
        more = " --max-cost MORE" if own_limit else ""
        return f"Ended early: {breaker.reason}. Resume with: {resume}{more}"
    if breaker.cut_short:
        return f"Ended early: {breaker.reason}. Fix the cause, then resume with: {resume}"
    return f"Fix the cause, then retry the invalid episodes with: {resume}" if progress.invalid else ""


def jobs_within(jobs: int, one_at_a_time: str, slots: int) -> tuple[int, str]:
    """Return how many episodes run at a time, and a line that says why they are fewer than `jobs`.

    Args:
        jobs: how many were asked for.
        one_at_a_time: why there can be one only, if so.
        slots: how many can have a sandbox.
    """
    if jobs > 1 and one_at_a_time:
        return 1, f"Running one episode at a time despite --jobs: {one_at_a_time}"
    if slots < jobs:
        return slots, f"Running {slots} at a time despite --jobs: that many slots have the runners"
    return jobs, ""


def setup_lines(setup: Setup, agent_version: str, why_fewer: str) -> Iterator[str]:
    """Yield what the operator should know of a run's setup before it begins.

    Args:
        setup: of its episodes.
        agent_version: the version that the run started with.
        why_fewer: the line of `jobs_within`.
    """
    yield from isolation_lines(setup)
    for one in setup.roles.models.values():
        yield f"Asked by the worlds: {one}"
    if why_fewer:
        yield why_fewer
    if setup.installation.version != agent_version:
        yield (
            f"The run started with {setup.agent.name} {agent_version}, but {setup.installation.version} is "
            "installed now. New episodes are stored with that version"
        )


def report_end(
    setup: Setup, run: RunFolder, total: int, progress: Progress, whole: Progress, tainted: Sequence[str]
) -> None:
    """Print on stderr what came of a run.

    Args:
        setup: of its episodes.
        run: the run.
        total: how many of its episodes were left to record.
        progress: of these.
        whole: of all its episodes.
        tainted: ids of the tainted episodes.
    """
    click.echo(f"{run.id}: {whole}", err=True)
    if total and whole is not progress:
        count = f"{progress.done} of {counted(len(run.info.plan), 'episode')}"
        click.echo(f"Recorded now: {count}, {progress}", err=True)
    if tainted:
        count = counted(len(tainted), "tainted episode")
        click.echo(f"{count}: the agent looked for its grade. See: mcp-bench show {tainted[0]}", err=True)
    if progress.claims:
        seen = "" if setup.capture else ". With --capture-llm it sees failures of the model endpoint"
        click.echo(
            f"{progress.claims} graded although the agent reported a failure in every attempt, which the "
            f"referee did not see{seen}",
            err=True,
        )


def isolation_lines(setup: Setup) -> Iterator[str]:
    """Yield how the agent is isolated, or why it is not."""
    if setup.level.name == IN_PROCESS:
        yield f"Isolation: {IN_PROCESS}, the agent is a part of this process"
    elif setup.level.name != "none":
        yield f"Isolation: {setup.level.name}, {len(setup.probes)} probes passed"
    elif setup.refused_levels:
        reasons = "; ".join(setup.refused_levels)
        yield f"Isolation: none, since no level works here ({reasons}). The agent could read its grades"


def summary(run: RunFolder, now: int, progress: Progress, tainted: int, stopped_by: str | None) -> RunEnded:
    return RunEnded(
        run=run.id,
        path=str(run.path),
        episodes=len(run.info.plan),
        episodes_now=now,
        graded=progress.graded,
        recorded=progress.recorded,
        invalid=progress.invalid,
        retried=progress.retried,
        claims=progress.claims,
        model_never_answered=progress.model_never_answered,
        tainted=tainted,
        partial=progress.partial,
        strict=progress.strict / progress.graded if progress.graded else None,
        calls=progress.calls,
        input_tokens=progress.input_tokens,
        output_tokens=progress.output_tokens,
        cost_usd=progress.cost_usd,
        stopped=stopped_by is not None,
        stopped_by=stopped_by,
    )


async def run_until_stopped(
    engine: Engine,
    run: RunFolder,
    jobs: int,
    retries: Retries,
    breaker: CircuitBreaker,
    display: Display,
    resume: str,
) -> bool:
    """Run all episodes; return whether a signal stopped them. A second signal exits at once."""
    stopped = False
    async with anyio.create_task_group() as tasks:

        async def watch_signals() -> None:
            nonlocal stopped
            with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
                async for _ in signals:
                    if stopped:
                        display.say(f"Stopped at once. Resume with: {resume}")
                        display.close()
                        engine.end_at_once()
                        os._exit(1)
                    stopped = True
                    display.say("Stopping the agents; recordings are kept. A second signal stops at once ...")
                    episodes.cancel()

        tasks.start_soon(watch_signals)
        tasks.start_soon(display.keep_current)
        episodes = anyio.CancelScope()
        async with engine:
            with episodes:
                await run_all(engine, run, jobs, retries, breaker, display)
        tasks.cancel_scope.cancel()
    return stopped
