"""`mcp-bench swe-tasks`."""

from __future__ import annotations

import click

EPILOG = """\b
Examples:
  mcp-bench swe-tasks
  mcp-bench swe-tasks --out DIR && MCP_BENCH_SWE=DIR mcp-bench tasks swe
"""


@click.command("swe-tasks", epilog=EPILOG)
@click.option(
    "--out", metavar="DIR", help="The tasks' folder. Default: $MCP_BENCH_SWE, else `swe` in the home."
)
@click.option(
    "--python",
    metavar="PATH",
    default="/usr/bin/python3",
    show_default=True,
    help="The Python that the sandboxes have.",
)
def swe_tasks(out: str | None, python: str) -> None:
    """Build tasks of the benchmark `swe` from packages.

    Two releases of each package are downloaded as source distributions: the first is the repository, and what
    the second changed is the solution and the hidden tests. What is there is not downloaded again.
    """
    from pathlib import Path

    from mcp_bench.servers.swe.instance import folder
    from mcp_bench.servers.swe.packages import build

    target = folder() if out is None else Path(out).absolute()
    for task in build(target, lambda line: click.echo(line, err=True), python):
        click.echo(task)
