"""`mcp-bench serve`: a benchmark for hand use, on stdio or streamable HTTP."""

from __future__ import annotations

import click

from mcp_bench.bridge.cli.hand_options import idle_option, log_to_stderr, task_options

EPILOG = """\b
Examples:
  mcp-bench serve saasworld-api                      in an agent's configuration, as a stdio server
  mcp-bench serve agentdojo --task banking/user_task_3
  mcp-bench serve agentdojo --split train --limit 10

The agent calls next_task, works with the other tools, and calls finish_task. Then the final state is
graded, where the agent cannot see it: `mcp-bench report` shows how it went.
"""


@click.command(epilog=EPILOG)
@click.argument("benchmark", metavar="B")
@task_options
@idle_option
def serve(
    benchmark: str, split: str | None, tasks: tuple[str, ...], seed: int, limit: int | None, idle: float
) -> None:
    """Serve benchmark B to an agent of your own. Every call is recorded, every task graded."""
    import anyio

    from mcp_bench.bridge.hand.serve_stdio import serve_stdio
    from mcp_bench.bridge.hand.tasks import TaskChoice

    log_to_stderr()
    anyio.run(serve_stdio, benchmark, TaskChoice(split, tasks, seed, limit), idle)
