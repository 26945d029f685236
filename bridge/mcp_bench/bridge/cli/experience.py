"""`mcp-bench experience`: recordings as an MCP server."""

from __future__ import annotations

import click

from mcp_bench.bridge.cli.options import http_options, log_to_stderr

EPILOG = """\b
Examples:
  mcp-bench experience                        as a stdio server in an agent's configuration
  mcp-bench experience --run run_1m7yq0k21j2zyrv
  mcp-bench experience --http 8809            for many clients, at the URL that it prints
  claude mcp add experience -- mcp-bench experience
"""


@click.command(epilog=EPILOG)
@click.option("--run", "runs", metavar="RUN", multiple=True, help="Show only this run (repeatable).")
@click.option(
    "--reveal",
    type=click.Choice(["train"]),
    help="Show also which assertions held, for tasks of this split. They say what the grader looks for.",
)
@http_options
def experience(
    runs: tuple[str, ...],
    reveal: str | None,
    http: tuple[str, int] | None,
    token: str | None,
    max_sessions: int,
    max_body: int,
) -> None:
    """Serve the recordings to an agent that learns from them: scores, conversations, failures, search.

    It shows episodes of the split train. Of dev it shows totals, rounded to a standard error; of test and of
    private splits, nothing.
    """
    import anyio

    from mcp_bench.bridge.experience.serve import IDLE_SECONDS, on_http, on_stdio
    from mcp_bench.bridge.experience.tools import Experience
    from mcp_bench.bridge.interactive.http_server import HttpOptions
    from mcp_bench.bridge.viewer.recordings import Library
    from mcp_bench.recorder.runs.find import run_paths
    from mcp_bench.servers.hardening import harden

    harden()
    log_to_stderr()
    shown = Experience(Library(), runs=run_paths(runs) if runs else None, reveal=reveal is not None)
    if http is None:
        anyio.run(on_stdio, shown)
    else:
        options = HttpOptions(*http, token, max_sessions, max_body, IDLE_SECONDS)
        anyio.run(on_http, shown, options, click.echo)
