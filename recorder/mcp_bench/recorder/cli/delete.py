"""`mcp-bench delete`: delete runs."""

from __future__ import annotations

import json

import click

EPILOG = """\b
Examples:
  mcp-bench delete run_01kbf3x9qv2m8t0
  mcp-bench delete run_01kbf3x9qv2m8t0 run_01kbf4a1cd7w5e2 --yes
"""


@click.command(epilog=EPILOG)
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--yes", is_flag=True, help="Delete without asking.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document. Requires --yes.")
def delete(runs: tuple[str, ...], yes: bool, as_json: bool) -> None:
    """Delete runs: their folders, with recordings, grades and logs.

    The ledger of the home keeps that they were deleted, so that `mcp-bench verify` does not report them as
    missing. A run that is being recorded is not deleted.
    """
    from mcp_bench.recorder.store.reader import run_paths
    from mcp_bench.recorder.store.run_folder import remove_run
    from mcp_bench.servers.errors import WrongUseError
    from mcp_bench.servers.sanitize import sanitize_line

    paths = run_paths(runs)
    if as_json and not yes:
        raise WrongUseError("--json does not ask: add --yes")
    if not yes:
        click.confirm(sanitize_line(f"Delete {', '.join(path.name for path in paths)}?"), abort=True)
    for path in paths:
        remove_run(path)
        if not as_json:
            click.echo(sanitize_line(f"deleted {path.name}"))
    if as_json:
        click.echo(json.dumps({"deleted": [path.name for path in paths]}))
