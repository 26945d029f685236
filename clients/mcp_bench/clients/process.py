"""Run a client as a process: common options and exit codes.

Exit codes: 0 the client finished or reached a limit, 1 it failed, 2 its command line was wrong.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NoReturn

import anyio

from mcp_bench.clients.events import ClientError, leaves, say_error


def parser(name: str, description: str) -> argparse.ArgumentParser:
    """Return an argument parser with the common options."""
    result = argparse.ArgumentParser(
        prog=f"python -m mcp_bench.clients.{name}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    result.add_argument(
        "--mcp-config",
        type=Path,
        required=True,
        metavar="FILE",
        help='the MCP server: {"mcpServers": {NAME: {"command": ..., "args": [...]} or {"url": ...}}}',
    )
    result.add_argument("--server", metavar="NAME", help="which server, if the file has several")
    result.add_argument(
        "--connect-timeout",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="timeout for the server to start and list its tools (default: 60)",
    )
    return result


def add_drawing(arguments: argparse.ArgumentParser) -> None:
    """Add the options of clients that act at random."""
    arguments.add_argument("--seed", type=int, default=0, help="seed of the random choice (default: 0)")
    arguments.add_argument(
        "--attempt", default="", metavar="TEXT", help="number of the attempt: each makes other choices"
    )


def drawing_key(options: argparse.Namespace) -> str:
    """Return the key of a client's random choices, without its task."""
    return f"{options.seed} {options.attempt}".strip()


def share(text: str) -> float:
    """Parse a share in 0..1."""
    value = float(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 1")
    return value


def read_stdin(what: str) -> str:
    """Return all of stdin.

    Raises:
        ClientError: it is empty, or not UTF-8.
    """
    try:
        text = sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise ClientError("usage", f"stdin is not UTF-8: {error}") from error
    if not text.strip():
        raise ClientError("usage", f"stdin is empty: it should have {what}")
    return text


def run(client: Callable[[], Awaitable[None]]) -> NoReturn:
    """Run a client and exit."""
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    sys.exit(anyio.run(finished, client, sys.stderr.write))


async def finished(client: Callable[[], Awaitable[None]], complain: Callable[[str], object]) -> int:
    """Let a client work, and return its exit code; `complain` gets the text of an error."""
    try:
        await client()
    except BaseException as error:
        failure = next((one for one in leaves(error) if isinstance(one, ClientError)), None)
        if failure is None:
            raise
        say_error(failure.kind, failure.detail)
        complain(f"Error: {failure.detail}\n")
        return 2 if failure.kind == "usage" else 1
    return 0
