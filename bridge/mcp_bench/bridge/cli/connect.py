"""`mcp-bench connect`: the stdio server for an agent's own configuration."""

from __future__ import annotations

import os

import click

from mcp_bench.bridge.cli.options import ids_in_files
from mcp_bench.bridge.run.choices import Choices
from mcp_bench.recorder.cli.options import options_of

DEFAULT_BENCHMARK = "saasworld-api"

EPILOG = """\b
Examples, each as the command of a stdio server in an agent's configuration:
  mcp-bench connect
  mcp-bench connect agentdojo --split train
  mcp-bench connect agentdojo --entry laptop         continue as the client laptop

\b
Many agents have a command that adds it, for example:
  claude mcp add bench -- mcp-bench connect
  codex mcp add bench -- mcp-bench connect
"""


@click.command(epilog=EPILOG)
@click.argument("benchmark", metavar="[B]", default=DEFAULT_BENCHMARK)
@click.option(
    "--entry",
    metavar="TOKEN",
    help="Join the client with this token: connections with the same token share its open task and continue "
    "its list of tasks. Default: each connection is a separate client.",
)
@options_of(Choices, "split", "tasks", "seed", "limit", tasks=ids_in_files)
def connect(
    benchmark: str, entry: str | None, split: str | None, tasks: tuple[str, ...], seed: int, limit: int | None
) -> None:
    """Connect an agent to the referee, as an MCP server.

    Serves the tasks of benchmark B (default: saasworld-api). Starts a referee if none is running. It exits
    after an hour without clients.
    """
    from mcp_bench.bridge.interactive.control import join, relay
    from mcp_bench.bridge.interactive.paths import RefereePaths

    if ":" in benchmark:  # the referee works in another folder; any other name is left to it: loading is slow
        from mcp_bench.servers.registry import load

        benchmark = load("benchmark", benchmark).name
    hello = {"benchmark": benchmark, "entry": entry, "split": split, "tasks": tasks, "seed": seed}
    relay(join(RefereePaths(), {**hello, "limit": limit}))
    os._exit(0)  # the thread that reads standard input cannot be interrupted
