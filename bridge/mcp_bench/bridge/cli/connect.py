"""`mcp-bench connect`: the entry that an agent's own configuration starts."""

from __future__ import annotations

import os

import click

from mcp_bench.bridge.cli.interactive_options import task_options

DEFAULT_BENCHMARK = "saasworld-api"

EPILOG = """\b
Examples, each as the command of a stdio server in an agent's configuration:
  mcp-bench connect
  mcp-bench connect agentdojo --split train
  mcp-bench connect agentdojo --entry desk-1         go on where this entry was

\b
An agent's own command line adds it, for example:
  claude mcp add bench -- mcp-bench connect
  codex mcp add bench -- mcp-bench connect
"""


@click.command(epilog=EPILOG)
@click.argument("benchmark", metavar="[B]", default=DEFAULT_BENCHMARK)
@click.option(
    "--entry",
    metavar="TOKEN",
    help="Share an entry, and its open task, with whoever else gives this token; its tasks go on where "
    "they were. Without it each connection is an entry of its own.",
)
@task_options
def connect(
    benchmark: str, entry: str | None, split: str | None, tasks: tuple[str, ...], seed: int, limit: int | None
) -> None:
    """Join the referee as an MCP server for benchmark B (default: saasworld-api).

    Where no referee is up, one is started; it ends by itself after an hour without an entry.
    """
    from mcp_bench.bridge.interactive.control import join, relay
    from mcp_bench.bridge.interactive.paths import RefereePaths

    hello = {"benchmark": benchmark, "entry": entry, "split": split, "tasks": tasks, "seed": seed}
    relay(join(RefereePaths(), {**hello, "limit": limit}))
    os._exit(0)  # the thread that reads standard input cannot be woken
