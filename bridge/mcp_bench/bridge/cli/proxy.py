"""`mcp-bench proxy`: record the traffic of any MCP server."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from mcp_bench.bridge.cli.options import address
from mcp_bench.bridge.run.choices import Choices
from mcp_bench.recorder.cli.options import options_of

if TYPE_CHECKING:
    from mcp_bench.recorder.run_settings import Durability

EPILOG = """\b
Examples, each as the command of a stdio server in an agent's configuration:
  mcp-bench proxy npx -y @modelcontextprotocol/server-everything
  mcp-bench proxy --durability full -- python my_server.py --port 8000
\b
For agents that use streamable HTTP:
  mcp-bench proxy --http 8808 https://example.com/mcp
"""


@click.command(
    short_help="Record the traffic of any MCP server.",
    epilog=EPILOG,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@options_of(Choices, "durability")
@click.option(
    "--http",
    "listen",
    metavar="[HOST:]PORT",
    help="Listen at this address and forward to URL; port 0 picks a free port.",
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="[--] CMD [ARG]... | URL")
def proxy(durability: Durability, listen: str | None, command: tuple[str, ...]) -> None:
    """Run the MCP server CMD on stdin and stdout, and record every message of the session.

    The server inherits the environment and the working directory. The command line is stored with the run, so
    pass secrets in the environment. Use `mcp-bench show` to see the recording.

    With the URL of a streamable HTTP server, listen on a port and forward to it until stopped. Clients use
    the URL that is printed, which contains a token; or, if $MCP_BENCH_TOKEN is set, that as a bearer token.
    """
    by_url = len(command) == 1 and command[0].startswith(("http://", "https://"))
    if listen is not None and not by_url:
        raise click.UsageError("--http needs the URL of a server, not a command")
    if by_url:
        from mcp_bench.bridge.proxy.http import run_http_proxy

        host, port = address(listen or "0")
        sys.exit(run_http_proxy(command[0], host, port, durability))
    from mcp_bench.bridge.proxy.stdio import run_proxy

    sys.exit(run_proxy(command, durability))
