"""`mcp-bench install`: add the server to an agent's own configuration, print the entry, or remove it."""

from __future__ import annotations

from typing import Literal

import click

EPILOG = """\b
Examples:
  mcp-bench install claude-code                     for all your projects
  mcp-bench install codex --scope project           for this folder
  mcp-bench install gemini --benchmark agentdojo
  mcp-bench install opencode --print                show the entry, write nothing
  mcp-bench install claude-code --remove
\b
Then ask the agent to call next_task. mcp-bench records and grades its work; see `mcp-bench report`.
"""


@click.command(epilog=EPILOG)
@click.argument("agent")
@click.option(
    "--benchmark", metavar="B", default="saasworld", show_default=True, help="The benchmark to work on."
)
@click.option(
    "--scope",
    type=click.Choice(["user", "project"]),
    default="user",
    show_default=True,
    help="The agent's configuration for you, or the one in this folder.",
)
@click.option("--name", default="bench", show_default=True, help="The server's name in the configuration.")
@click.option("--print", "only_show", is_flag=True, help="Print the entry and where it goes; write nothing.")
@click.option("--remove", is_flag=True, help="Remove the entry.")
def install(
    agent: str, benchmark: str, scope: Literal["user", "project"], name: str, only_show: bool, remove: bool
) -> None:
    """Add the server to AGENT's own configuration.

    You can then use it interactively. Other entries and comments stay unchanged. Doing it twice changes
    nothing.
    """
    import os
    from pathlib import Path

    from mcp_bench.plugins.install.entry import Change, apply, wanted
    from mcp_bench.servers.registry import load

    if only_show and remove:
        raise click.UsageError("--print and --remove exclude each other")
    change = Change(agent, scope, name, os.environ, Path.cwd())
    if remove:
        done = apply(change, None)
        click.echo(f"removed {name} from {change.path}" if done else f"{change.path} has no {name}")
        return
    # a wrong name shows now, not in the agent; its own name has the whole path of a folder
    benchmark = load("benchmark", benchmark).name
    if only_show:
        entry = wanted(change, change.present(change.text()), benchmark)
        click.echo(f"goes into {change.path}:", err=True)
        click.echo(change.shown(entry), nl=False)
        return
    was = change.present(change.text())
    done = apply(change, benchmark)
    did = f"added {name} to {change.path}" if was is None else f"changed {name} in {change.path}"
    click.echo(did if done else f"{change.path} has it already")
