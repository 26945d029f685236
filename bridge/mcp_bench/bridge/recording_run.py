"""Drive a run to its end, and say how it went."""

from __future__ import annotations

import json
import os
import signal

import anyio
import click

from mcp_bench.bridge.agent_process import end_all_at_once
from mcp_bench.bridge.attempt import Setup
from mcp_bench.bridge.display import Display
from mcp_bench.bridge.episode_folder import remove_all
from mcp_bench.bridge.referee import run_all
from mcp_bench.recorder.run_folder import RunFolder


def run_and_report(setup: Setup, run: RunFolder, jobs: int, as_json: bool) -> int:
    """Run every pending episode and print a summary; return the exit code."""
    total = len(run.pending())
    title = f"{run.info.agent} on {run.info.benchmark if run.info.graded else 'a server'}"
    with Display(total, title) as display:
        display.say(f"{run.id}: {title}, {total} {'episode' if total == 1 else 'episodes'}, {jobs} at a time")
        stopped = True
        try:
            stopped = anyio.run(run_until_stopped, setup, run, jobs, display)
        finally:
            if stopped:
                display.say(f"Stopped. Go on with: mcp-bench record --resume {run.id}")
    tally = display.tally
    click.echo(f"{run.id}: {tally}", err=True)
    if as_json:
        summary = {
            "run": run.id,
            "path": str(run.path),
            "episodes": total,
            "graded": tally.graded,
            "recorded": tally.recorded,
            "invalid": tally.invalid,
            "partial": tally.partial,
            "strict": tally.strict / tally.graded if tally.graded else None,
            "calls": tally.calls,
            "stopped": stopped,
        }
        click.echo(json.dumps(summary))
    return 1 if stopped or tally.invalid else 0


async def run_until_stopped(setup: Setup, run: RunFolder, jobs: int, display: Display) -> bool:
    """Run all episodes; return whether a signal stopped them. A second signal ends this process at once."""
    stopped = False
    async with anyio.create_task_group() as tasks:

        async def watch_signals() -> None:
            nonlocal stopped
            with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
                async for _ in signals:
                    if stopped:
                        display.say(f"Stopped at once. Go on with: mcp-bench record --resume {run.id}")
                        end_all_at_once()
                        remove_all()
                        os._exit(1)
                    stopped = True
                    display.say("Stopping: ending the agents, keeping what is recorded (again: at once) ...")
                    episodes.cancel()

        tasks.start_soon(watch_signals)
        with anyio.CancelScope() as episodes:
            await run_all(setup, run, jobs, display.show)
        tasks.cancel_scope.cancel()
    return stopped
