"""Drive a run to its end, and say how it went."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Mapping

import anyio
import click
from pydantic import JsonValue

from mcp_bench.bridge.budget import Budget
from mcp_bench.bridge.episode.attempt import Setup
from mcp_bench.bridge.isolation.canaries import planted
from mcp_bench.bridge.process.agent import end_all_at_once
from mcp_bench.bridge.run.circuit_breaker import Brakes
from mcp_bench.bridge.run.display import Display
from mcp_bench.bridge.run.retry import Retries
from mcp_bench.bridge.run.scheduler import run_all
from mcp_bench.bridge.wire.episode_folder import remove_all
from mcp_bench.plugins.own_clients import environment as client_environment
from mcp_bench.recorder.store.run_folder import RunFolder
from mcp_bench.servers.sanitize import sanitize_line


def run_and_report(setup: Setup, run: RunFolder, jobs: int, max_cost: float | None, as_json: bool) -> int:
    """Run every pending episode and print a summary; return the exit code.

    `max_cost` is in US dollars, and holds instead of the run's own if it is given.
    """
    total = len(run.pending())
    waiting = setup.one_at_a_time if jobs > 1 else ""
    jobs = 1 if waiting else jobs
    title = f"{run.info.agent} on {run.info.benchmark if run.info.graded else 'a server'}"
    settings = run.info.settings
    retries = Retries(int(number(settings, "retries") or 0), number(settings, "retry_wait") or 0)
    budget = Budget(max_cost or number(settings, "max_cost"), *run.recording.reported_costs())
    brakes = Brakes(jobs, budget)
    before = run.recording.calls_made
    with Display(total, jobs, title, lambda: run.recording.calls_made - before) as display:
        display.say(f"{run.id}: {title}, {total} {'episode' if total == 1 else 'episodes'}, {jobs} at a time")
        for line in kept_apart(setup):
            display.say(line)
        if waiting:
            display.say(f"--jobs is 1 here: {waiting}")
        if setup.installation.version != run.info.agent_version:
            display.say(
                f"The run began with {setup.agent.name} {run.info.agent_version}, and this is "
                f"{setup.installation.version}: it is stored with the new episodes"
            )
        stopped = True
        try:
            with planted(run):
                stopped = anyio.run(run_until_stopped, setup, run, jobs, retries, brakes, display)
        finally:
            if stopped:
                display.say(f"Stopped. Go on with: {resuming(run)}")
    tally = display.tally
    click.echo(f"{run.id}: {tally}", err=True)
    tainted = run.grades.tainted()
    if tainted:
        told = f"{len(tainted)} tainted, whose agents looked for their grades: mcp-bench show {tainted[0]}"
        click.echo(told, err=True)
    if brakes.cut_short and not stopped:
        more = " --max-cost MORE" if budget.is_spent else ""
        told = f"Ended early: {brakes.reason}. Go on with: {resuming(run)}{more}"
        click.echo(sanitize_line(told), err=True)
    elif tally.invalid and not stopped:
        click.echo(f"Try the invalid ones again with: {resuming(run)}", err=True)
    if as_json:
        summary = {
            "run": run.id,
            "path": str(run.path),
            "episodes": total,
            "graded": tally.graded,
            "recorded": tally.recorded,
            "invalid": tally.invalid,
            "retried": tally.retried,
            "tainted": len(tainted),
            "partial": tally.partial,
            "strict": tally.strict / tally.graded if tally.graded else None,
            "calls": tally.calls,
            "input_tokens": tally.input_tokens,
            "output_tokens": tally.output_tokens,
            "cost_usd": tally.cost_usd,
            "stopped": stopped or brakes.cut_short,
            "stopped_by": "signal" if stopped else brakes.reason if brakes.cut_short else None,
        }
        click.echo(json.dumps(summary))
    return 1 if stopped or brakes.cut_short or tally.invalid else 0


def kept_apart(setup: Setup) -> Iterator[str]:
    """Say how the agent is kept apart from the grades, and what would take more."""
    if setup.level.name != "none":
        yield f"Isolation: {setup.level.name}, {len(setup.probes)} probes passed"
    elif setup.weaker:
        yield f"Isolation: none works here ({'; '.join(setup.weaker)}). The agent could read its grades"


def number(settings: Mapping[str, JsonValue], key: str) -> float | None:
    value = settings.get(key)
    return float(value) if isinstance(value, int | float) else None


def resuming(run: RunFolder) -> str:
    return f"mcp-bench record --resume {run.id}"


async def run_until_stopped(
    setup: Setup, run: RunFolder, jobs: int, retries: Retries, brakes: Brakes, display: Display
) -> bool:
    """Run all episodes; return whether a signal stopped them. A second signal ends this process at once."""
    stopped = False
    async with anyio.create_task_group() as tasks:

        async def watch_signals() -> None:
            nonlocal stopped
            with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
                async for _ in signals:
                    if stopped:
                        display.say(f"Stopped at once. Go on with: {resuming(run)}")
                        display.close()
                        end_all_at_once()
                        remove_all()
                        client_environment.remove()
                        os._exit(1)
                    stopped = True
                    display.say("Stopping: ending the agents, keeping what is recorded (again: at once) ...")
                    episodes.cancel()

        tasks.start_soon(watch_signals)
        tasks.start_soon(display.keep_current)
        with anyio.CancelScope() as episodes:
            await run_all(setup, run, jobs, retries, brakes, display)
        tasks.cancel_scope.cancel()
    return stopped
