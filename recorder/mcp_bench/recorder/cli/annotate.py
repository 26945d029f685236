"""`mcp-bench annotate`: tags and a note on runs."""

from __future__ import annotations

import json

import click

EPILOG = """\b
Examples:
  mcp-bench annotate run_01kbf3x9qv2m8t0 --tag baseline --note "before the new prompt"
  mcp-bench annotate run_01kbf3x run_01kbf4a --tag sweep-3 --remove-tag draft
  mcp-bench annotate run_01kbf3x9qv2m8t0                  show what it has
  mcp-bench report --run-tag baseline
"""


@click.command(epilog=EPILOG)
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--tag", "add", multiple=True, metavar="TAG", help="Give the runs this tag (repeatable).")
@click.option(
    "--remove-tag", "remove", multiple=True, metavar="TAG", help="Take this tag from them (repeatable)."
)
@click.option("--note", metavar="TEXT", help='Replace their note; "" removes it.')
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def annotate(
    runs: tuple[str, ...], add: tuple[str, ...], remove: tuple[str, ...], note: str | None, as_json: bool
) -> None:
    """Give runs tags and a note.

    RUN is an id or a unique prefix of one. `report`, `show`, `export` and other commands choose runs by
    --run-tag. `mcp-bench record --run-tag TAG --note TEXT` sets both for a new run.

    Tags and notes are your own words. They are in a file beside the recordings, are not signed, and change
    neither grades nor what `mcp-bench verify` says.
    """
    from mcp_bench.recorder.runs import annotations
    from mcp_bench.recorder.runs.find import run_paths
    from mcp_bench.servers.errors import UnknownNameError
    from mcp_bench.servers.terminal.sanitize import sanitize, sanitize_line

    paths = run_paths(runs)
    annotations.check_annotations(add, note)
    before = {path: annotations.read_annotations(path) for path in paths}
    known = {tag for one in before.values() for tag in one.tags}
    for tag in remove:
        if tag not in known:
            raise UnknownNameError("run tag", tag, known)
    found = {path.name: annotations.annotate(path, add=add, remove=remove, note=note) for path in paths}
    if as_json:
        rows = [{"run": run, "tags": list(one.tags), "note": one.note} for run, one in found.items()]
        click.echo(json.dumps(rows))
        return
    for run, one in found.items():
        click.echo(sanitize_line(f"{run}  {', '.join(one.tags) or 'no tags'}"))
        if one.note:
            click.echo("  " + sanitize(one.note).replace("\n", "\n  "))
