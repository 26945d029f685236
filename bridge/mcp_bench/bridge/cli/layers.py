"""`mcp-bench layers`: what sandboxes have kept."""

from __future__ import annotations

import json
import sys

import click

from mcp_bench.recorder.cli.options import finite

EPILOG = """\b
Examples:
  mcp-bench layers
  mcp-bench layers --remove
  mcp-bench layers --remove --unused-for 7
"""


@click.command(epilog=EPILOG)
@click.option("--remove", is_flag=True, help="Remove the layers that no sandbox uses.")
@click.option(
    "--unused-for",
    "days",
    type=click.FloatRange(min=0),
    metavar="DAYS",
    callback=finite,
    help="With --remove: only those that were not used for so many days.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def layers(remove: bool, days: float | None, as_json: bool) -> None:
    """List or remove the built files of tasks.

    Sandboxes begin with them. The first episode of a `harbor` task follows its Dockerfile and keeps the
    files; the next ones begin with them. Another Dockerfile, other files that it copies or another base make
    another layer. Those not used for 30 days are removed, and the longest unused ones when all have more than
    MCP_BENCH_LAYERS_MIB.
    """
    from mcp_bench.bridge.sandbox import kept_layers
    from mcp_bench.servers.errors import WrongUseError

    if days is not None and not remove:
        raise WrongUseError("--unused-for goes with --remove")
    if remove:
        most = 0 if days is None else sys.maxsize  # by their age alone
        found = kept_layers.remove(most_bytes=most, unused_days=days or 0)
    else:
        found = kept_layers.kept()
    if as_json:
        rows = [{"key": one.key, "bytes": one.bytes, "used": round(one.used, 3)} for one in found]
        click.echo(json.dumps({"removed" if remove else "layers": rows}))
        return
    for one in found:
        click.echo(f"{'removed ' * remove}{one.key}  {one.bytes / (1 << 20):.1f} MiB")
    if not found:
        click.echo("nothing was removed" if remove else "no layer is kept", err=True)
