"""`mcp-bench proxy`: put in front of any MCP server, it records what passes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from mcp_bench.recorder.store.database import Durability

EPILOG = """\b
Examples, as an agent's configuration would have them:
  mcp-bench proxy npx -y @modelcontextprotocol/server-everything
  mcp-bench proxy --durability full -- python my_server.py --port 8000
\b
And for agents that speak streamable HTTP:
  mcp-bench proxy --http 8808 https://example.com/mcp
"""


@click.command(
    short_help="Record any MCP server that a client starts or has a URL of.",
    epilog=EPILOG,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.option(
    "--durability",
    type=click.Choice(["normal", "full"]),
    default="normal",
    show_default=True,
    help="What a stored frame outlives: a killed process, or a power cut, too (slower).",
)
@click.option(
    "--http",
    "listen",
    metavar="[HOST:]PORT",
    help="Listen here, and forward to the server at URL; 0: any port.",
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="[--] CMD [ARG]... | URL")
def proxy(durability: Durability, listen: str | None, command: tuple[str, ...]) -> None:
    """Run the MCP server CMD on stdin and stdout, and record every message of the session.

    The server gets this process's environment and working directory; its command line is stored with the
    run, so hand secrets over in the environment. See what was recorded with `mcp-bench show`.

    Given the URL of a server on streamable HTTP, listen on a port and forward to it until stopped; on another
    address than this machine's own, clients need the bearer token in $MCP_BENCH_TOKEN.
    """
    by_url = len(command) == 1 and command[0].startswith(("http://", "https://"))
    if listen is not None and not by_url:
        raise click.UsageError("--http is for a server that is at a URL: give that instead of a command")
    if by_url:
        from mcp_bench.bridge.proxy.http import run_http_proxy

        host, port = address(listen or "0")
        sys.exit(run_http_proxy(command[0], host, port, durability))
    from mcp_bench.bridge.proxy.stdio import run_proxy

    sys.exit(run_proxy(command, durability))


def address(text: str) -> tuple[str, int]:
    """Parse `[HOST:]PORT`; the host is this machine's loopback address unless given."""
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit() and int(port) < 1 << 16):
        raise click.BadParameter(f"{text!r} is not [HOST:]PORT", param_hint="--http")
    return host or "127.0.0.1", int(port)
