"""`mcp-bench verify`: check that recordings have not been changed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from mcp_bench.recorder.store.keys import Key
    from mcp_bench.recorder.verify.verify import Verdict

SHOWN = 20
"""Findings of a run that are listed on a terminal. --json has all."""

EPILOG = """\b
Examples:
  mcp-bench verify
  mcp-bench verify run_01kbf3x9qv2m8t0 --json
  mcp-bench verify --key worker.key          runs from another machine, with the key of that machine
"""


@click.command(epilog=EPILOG)
@click.argument("runs", nargs=-1, metavar="[RUN]...")
@click.option(
    "--key",
    "key_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Key that the runs were recorded with, if they come from another home: its file `key`.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def verify(runs: tuple[str, ...], key_file: Path | None, as_json: bool) -> None:
    """Check that recordings have not been changed.

    Finds every row of the named runs, or of all, that was edited, removed, added or moved. The exit code is
    0 if every run is unchanged, and 1 if a run was changed or cannot be verified. A run cannot be verified
    if it was recorded with another key, if its writer was killed so that its end is not sealed, or if it
    cannot be read.
    """
    from mcp_bench.recorder.store.keys import key_path, read_key
    from mcp_bench.recorder.store.reader import run_paths
    from mcp_bench.recorder.verify.verify import verify as verify_run

    paths = run_paths(runs)
    own = key_path()
    key: Key | None = read_key(key_file or own) if key_file or own.exists() else None
    verdicts = []
    for path in paths:
        verdicts.append(verdict := verify_run(path, key))
        if not as_json:
            show(verdict)
    if as_json:
        click.echo(json.dumps([document(verdict) for verdict in verdicts]))
    elif not verdicts:
        click.echo("no recordings yet. Make some: mcp-bench record --agent oracle --limit 5")
    sys.exit(0 if all(verdict.state == "verified" for verdict in verdicts) else 1)


def show(verdict: Verdict) -> None:
    from mcp_bench.servers.sanitize import sanitize_line

    color = {"verified": "green", "changed": "red"}.get(verdict.state, "yellow")
    detail = f": {verdict.detail}" if verdict.detail else ""
    if verdict.state == "verified":
        detail = f" ({sum(verdict.rows.values())} rows){detail}"
    click.echo(
        f"{sanitize_line(verdict.run)}  " + click.style(verdict.state, fg=color) + sanitize_line(detail)
    )
    for finding in verdict.findings[:SHOWN]:
        place = finding.place
        within = f" of {place.episode}" if place.episode else ""
        because = f": {finding.detail}" if finding.detail else ""
        click.echo(sanitize_line(f"  {finding.change:<8}{place.table} {place.key}{within}{because}"))
    if more := len(verdict.findings) - SHOWN:
        click.echo(f"  and {more} more (--json)" if more > 0 else "", nl=more > 0)


def document(verdict: Verdict) -> dict[str, Any]:
    return {
        "run": verdict.run,
        "path": str(verdict.path),
        "verdict": verdict.state,
        "detail": verdict.detail or None,
        "key": verdict.key,
        "rows": verdict.rows,
        "findings": [
            {
                "table": finding.place.table,
                "row": finding.place.key,
                "episode": finding.place.episode,
                "change": finding.change,
                "detail": finding.detail or None,
            }
            for finding in verdict.findings
        ],
    }
