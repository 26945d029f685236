"""`mcp-bench serve`: a benchmark for interactive use, on stdio or streamable HTTP."""

from __future__ import annotations

import click

from mcp_bench.bridge.cli.options import http_options, idle_option, ids_in_files, log_to_stderr
from mcp_bench.bridge.run.choices import Choices
from mcp_bench.recorder.cli.options import options_of

EPILOG = """\b
Examples:
  mcp-bench serve saasworld-api                      as a stdio server in an agent's configuration
  mcp-bench serve agentdojo --task banking/user_task_3
  mcp-bench serve agentdojo --split train --limit 10
  mcp-bench serve saasworld-api --http 8808          for many clients, at the URL that it prints

The agent calls next_task, works with the other tools, and calls finish_task. Then the final state is
graded where the agent cannot see it. `mcp-bench report` shows the grades.
"""


@click.command(epilog=EPILOG)
@click.argument("benchmark", metavar="B")
@options_of(Choices, "split", "tasks", "seed", "limit", tasks=ids_in_files)
@idle_option
@http_options
def serve(
    benchmark: str,
    split: str | None,
    tasks: tuple[str, ...],
    seed: int,
    limit: int | None,
    idle: float,
    http: tuple[str, int] | None,
    token: str | None,
    max_sessions: int,
    max_body: int,
) -> None:
    """Serve benchmark B to any agent. Every call is recorded, every task graded.

    On stdin and stdout there is one client. With --http there are many, each with its own world: one for each
    session that starts with a handshake. Clients of protocol 2026-07-28 have no sessions: they share one at
    /mcp, or use a separate one at /mcp/NAME.
    """
    import anyio

    from mcp_bench.bridge.interactive.run import TaskChoice
    from mcp_bench.servers.hardening import harden

    harden()
    log_to_stderr()
    choice = TaskChoice(split, tasks, seed, limit)
    if http is None:
        from mcp_bench.bridge.interactive.stdio import serve_stdio

        anyio.run(serve_stdio, benchmark, choice, idle)
    else:
        from mcp_bench.bridge.interactive.http_server import HttpOptions, serve_http

        options = HttpOptions(*http, token, max_sessions, max_body, idle)
        anyio.run(serve_http, benchmark, choice, options)
