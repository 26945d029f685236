"""`mcp-bench merge`: combine the rows of many runs in one file."""

from __future__ import annotations

import json
from pathlib import Path

import click

from mcp_bench.recorder.cli.run_options import NOTHING, run_options, runs_argument

EPILOG = """\b
Examples:
  mcp-bench merge --out all.db
  mcp-bench merge run_01kbf3x9qv2m8t0 run_01kbf4a1cd7w5e2 --out both.db
  mcp-bench merge --run-tag baseline --out baseline.db
  sqlite3 all.db 'SELECT agent, avg(partial) FROM episode_summary GROUP BY agent'
"""


@click.command(epilog=EPILOG)
@runs_argument
@run_options
@click.option(
    "--out",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="SQLite file to write. It contains grades, so only you can read it (mode 0600).",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def merge(
    named: tuple[str, ...], runs: tuple[str, ...], run_tags: tuple[str, ...], out: Path, as_json: bool
) -> None:
    """Combine the named runs, or all, in one SQLite file.

    The first column of every table is `run`. The view `episode_summary` has a row for each episode, with its
    grade, and the table `annotations` the tags and notes of runs. The runs do not change. `mcp-bench verify`
    checks runs only, not the combined file.
    """
    from mcp_bench.recorder.runs.merge import merge_runs
    from mcp_bench.recorder.verify.damage import undamaged
    from mcp_bench.servers.errors import WrongUseError
    from mcp_bench.servers.terminal.sanitize import sanitize_line

    paths = undamaged((*named, *runs), tags=run_tags)
    if not paths:
        raise WrongUseError(NOTHING)
    counts = merge_runs(paths, out, lambda run: click.echo(sanitize_line(f"merging {run}"), err=True))
    if as_json:
        click.echo(json.dumps({"out": str(out), "runs": len(paths), "rows": counts}))
        return
    click.echo(
        sanitize_line(f"{out}: {len(paths)} runs, {counts['episodes']} episodes, {counts['calls']} calls")
    )
