"""`mcp-bench improve-task check`: an improvement task of one's own, tried from end to end."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

import click

EPILOG = """\b
Examples:
  mcp-bench improve-task check my-task/
  mcp-bench improve-task check my-task/ --repeat 10
  mcp-bench improve-task check my-task/ --json
"""


@click.group(name="improve-task", epilog=EPILOG)
def improve_task() -> None:
    """Try improvement tasks of your own."""


@improve_task.command(epilog=EPILOG)
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--repeat",
    "repeats",
    type=click.IntRange(min=1),
    metavar="N",
    default=3,
    show_default=True,
    help="Number of trials.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def check(folder: Path, repeats: int, as_json: bool) -> None:
    """Try the improvement task in FOLDER and say what is wrong with it.

    Measures the baseline and the reference, and each against itself, in sandboxes; each trial has data
    of its own. Exits with 1 if a problem was found.
    """
    import anyio

    from mcp_bench.bridge.check.improve_task import Trial, trials
    from mcp_bench.servers.improve.task_file import read_task
    from mcp_bench.servers.terminal.sanitize import sanitize_line

    definition = read_task(folder).definition
    metric = definition.metric
    found: list[Trial] = []

    async def run() -> None:
        async for trial in trials(folder, repeats):
            found.append(trial)
            if not as_json:
                click.echo(
                    f"trial {len(found)}: {metric.name}: baseline {trial.baseline:.5g}, reference "
                    f"{trial.reference:.5g} {metric.unit}; gain {trial.gain:.3g}, noise {trial.noise:.2g} "
                    f"({'log-ratio' if metric.scale == 'log' else 'difference'}); {trial.seconds:.1f} s"
                )

    anyio.run(run)
    counts: dict[str, int] = {}
    for trial in found:
        for problem in trial.problems:
            counts[problem] = counts.get(problem, 0) + 1
    if as_json:
        document = {
            "task": definition.name,
            "passed": not counts,
            "trials": [asdict(trial) for trial in found],
        }
        click.echo(json.dumps(document, indent=2))
    else:
        for problem, count in counts.items():
            click.echo(f"problem: {sanitize_line(problem)} ({count} of {repeats} trials)")
        click.echo(f"{definition.name}: {'problems' if counts else 'ok'}")
    sys.exit(1 if counts else 0)
