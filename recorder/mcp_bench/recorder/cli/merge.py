"""`mcp-bench merge`: combine the rows of many runs in one file."""

from __future__ import annotations

import json
from pathlib import Path

import click

EPILOG = """\b
Examples:
  mcp-bench merge --out all.db
  mcp-bench merge run_01kbf3x9qv2m8t0 run_01kbf4a1cd7w5e2 --out both.db
  sqlite3 all.db 'SELECT agent, avg(partial) FROM episode_summary GROUP BY agent'
"""


@click.command(epilog=EPILOG)
@click.argument("runs", nargs=-1, metavar="[RUN]...")
@click.option(
    "--out",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="SQLite file to write. It contains grades, so only you can read it (mode 0600).",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def merge(runs: tuple[str, ...], out: Path, as_json: bool) -> None:
    """Combine the named runs, or all, in one SQLite file.

    The first column of every table is `run`. The view `episode_summary` has a row for each episode, with its
    grade. The runs do not change. `mcp-bench verify` checks runs only, not the combined file.
    """
    from mcp_bench.recorder.store.merged_runs import merge_runs
    from mcp_bench.recorder.verify.damage import undamaged
    from mcp_bench.servers.errors import WrongUseError
    from mcp_bench.servers.sanitize import sanitize_line

    paths = undamaged(runs)
    if not paths:
        raise WrongUseError("no recordings yet. Make some: mcp-bench record --agent oracle --limit 5")
    counts = merge_runs(paths, out, lambda run: click.echo(sanitize_line(f"merging {run}"), err=True))
    if as_json:
        click.echo(json.dumps({"out": str(out), "runs": len(paths), "rows": counts}))
        return
    click.echo(
        sanitize_line(f"{out}: {len(paths)} runs, {counts['episodes']} episodes, {counts['calls']} calls")
    )
