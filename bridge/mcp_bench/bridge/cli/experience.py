"""`mcp-bench experience`: recordings as an MCP server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from mcp_bench.bridge.cli.options import http_options, log_to_stderr

EPILOG = """\b
Examples:
  mcp-bench experience                        as a stdio server in an agent's configuration
  mcp-bench experience --run run_1m7yq0k21j2zyrv
  mcp-bench experience --http 8809            for many clients, at the URL that it prints
  claude mcp add experience -- mcp-bench experience
  claude mcp add experience -- mcp-bench experience --edit ~/my-harness
"""


@click.command(epilog=EPILOG)
@click.option("--run", "runs", metavar="RUN", multiple=True, help="Show only this run (repeatable).")
@click.option(
    "--reveal",
    type=click.Choice(["train"]),
    help="Show also which assertions held, for tasks of this split. They say what the grader looks for.",
)
@click.option(
    "--edit",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Add tools that edit the harness in this folder. It can be empty or new.",
)
@click.option(
    "--proposal",
    metavar="FILE",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="With --edit: add tools that propose what to try next. `mcp-bench improve` makes the file, and "
    "reads it.",
)
@http_options
def experience(
    runs: tuple[str, ...],
    reveal: str | None,
    edit: Path | None,
    proposal: Path | None,
    http: tuple[str, int] | None,
    token: str | None,
    max_sessions: int,
    max_body: int,
) -> None:
    """Serve the recordings to an agent that learns from them.

    Its tools show scores, conversations and failures, and search. It shows episodes of the split train. Of
    dev it shows totals, rounded to a standard error; of test and of private splits, nothing.
    """
    import anyio

    from mcp_bench.bridge.experience.editing import EditingExperience, ProposingExperience
    from mcp_bench.bridge.experience.serve import IDLE_SECONDS, on_http, on_stdio
    from mcp_bench.bridge.experience.tools import Experience
    from mcp_bench.bridge.interactive.http_server import HttpOptions
    from mcp_bench.bridge.viewer.recordings import Library
    from mcp_bench.recorder.runs.find import run_paths
    from mcp_bench.servers.hardening import harden

    harden()
    log_to_stderr()
    view: dict[str, Any] = {"runs": run_paths(runs) if runs else None, "reveal": reveal is not None}
    if proposal is not None and edit is None:
        raise click.UsageError("--proposal needs --edit")
    if edit is None:
        shown = Experience(Library(), **view)
    elif proposal is None:
        shown = EditingExperience(Library(), edit.absolute(), **view)
    else:
        shown = ProposingExperience(Library(), edit.absolute(), proposal, **view)
    if http is None:
        anyio.run(on_stdio, shown)
    else:
        options = HttpOptions(*http, token, max_sessions, max_body, IDLE_SECONDS)
        anyio.run(on_http, shown, options, click.echo)
