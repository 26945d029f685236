"""`mcp-bench scan`: did agents look for their grades?"""

from __future__ import annotations

import json
import sys

import click

EPILOG = """\b
Examples:
  mcp-bench scan
  mcp-bench scan run_01kbf3x9qv2m8t0 --json
"""


@click.command(epilog=EPILOG)
@click.argument("runs", nargs=-1, metavar="[RUN]...")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def scan(runs: tuple[str, ...], as_json: bool) -> None:
    """Scan recordings for agents that looked for their grades.

    `mcp-bench record` does so at the end of every episode; this does it again for the named runs, or for all,
    and for those that were recorded by hand. The verdicts are stored; `show EPISODE` has the evidence. What
    was evidence once stays so. A run that `mcp-bench verify` finds changed is left as it is, and makes this
    end with 1.
    """
    from mcp_bench.recorder.errors import StorageError
    from mcp_bench.recorder.scan.rescan import rescan
    from mcp_bench.recorder.store.reader import run_paths
    from mcp_bench.servers.sanitize import sanitize_line

    done, failed = [], []
    for path in run_paths(runs):
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
        click.echo("no recordings yet. Make some: mcp-bench record --agent oracle --limit 5")
    sys.exit(1 if failed else 0)
