"""`mcp-bench scan`: search recordings for agents that looked for their grades."""

from __future__ import annotations

import json
import sys

import click

from mcp_bench.recorder.cli.run_options import NOTHING, run_options, runs_argument

EPILOG = """\b
Examples:
  mcp-bench scan
  mcp-bench scan run_01kbf3x9qv2m8t0 --json
  mcp-bench scan --run-tag baseline
"""


@click.command(epilog=EPILOG)
@runs_argument
@run_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def scan(named: tuple[str, ...], runs: tuple[str, ...], run_tags: tuple[str, ...], as_json: bool) -> None:
    """Scan recordings for agents that looked for their grades.

    `mcp-bench record` scans every episode when it ends. This command scans the named runs, or all, again,
    including runs of interactive use. It stores the verdicts; `show EPISODE` lists the evidence. Earlier
    evidence is kept. Runs that `mcp-bench verify` finds changed are left out, and the exit code is then 1.
    """
    from mcp_bench.recorder.errors import StorageError
    from mcp_bench.recorder.scan.rescan import rescan
    from mcp_bench.recorder.verify.damage import EmptyRunError, readable
    from mcp_bench.servers.terminal.sanitize import sanitize_line

    paths, failed = readable((*named, *runs), tags=run_tags)
    for problem in failed:
        click.echo(sanitize_line(f"Left out: {problem}"), err=True)
    done = []
    for path in paths:
        try:
            found = rescan(path)
        except StorageError as error:
            failed.append(error)
            click.echo(sanitize_line(f"Left out: {error}"), err=True)
            continue
        counts = {verdict: found.verdicts[verdict] for verdict in ("clean", "tainted", "unknown")}
        done.append({"run": found.run, **counts, "changed": found.changed})
        if not as_json:
            click.echo(
                sanitize_line(f"{found.run}  {', '.join(f'{n} {word}' for word, n in counts.items())}")
            )
            for episode, (before, now) in found.changed.items():
                click.echo(sanitize_line(f"  {episode}: {before} before, {now} now"))
    if as_json:
        click.echo(json.dumps(done))
    elif not done and not failed:
        click.echo(NOTHING)
    sys.exit(0 if all(isinstance(problem, EmptyRunError) for problem in failed) else 1)
