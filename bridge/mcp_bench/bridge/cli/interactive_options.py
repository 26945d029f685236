"""Options that the commands for hand use have in common."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import reduce
from typing import Any, TypeVar

import click

from mcp_bench.bridge.cli.proxy import address
from mcp_bench.bridge.cli.record import finite

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_IDLE = 3600.0

TASK_OPTIONS = (
    click.option(
        "--split", metavar="S", help="train, dev, test, or all; the benchmark's default set if not given."
    ),
    click.option("--task", "tasks", metavar="ID", multiple=True, help="One task by its id; may be repeated."),
    click.option(
        "--seed", type=int, default=0, show_default=True, help="What the harness may vary in a world."
    ),
    click.option(
        "--limit",
        type=click.IntRange(min=1),
        metavar="N",
        help="At most N tasks; all of the split if not given.",
    ),
)


DEFAULT_MAX_BODY = 16 << 20

HTTP_OPTIONS = (
    click.option(
        "--http",
        metavar="[HOST:]PORT",
        callback=lambda ctx, param, value: None if value is None else address(value),
        help="Listen here for streamable HTTP; 0: any port.",
    ),
    click.option(
        "--token",
        metavar="TOKEN",
        envvar="MCP_BENCH_TOKEN",
        help="What HTTP clients show as `Authorization: Bearer TOKEN`; also $MCP_BENCH_TOKEN, which other "
        "users cannot see. On any address but loopback one is made and printed if none is given.",
    ),
    click.option(
        "--max-sessions",
        type=click.IntRange(min=1),
        metavar="N",
        default=256,
        show_default=True,
        help="HTTP entries at once.",
    ),
    click.option(
        "--max-body",
        type=click.IntRange(min=1),
        metavar="BYTES",
        default=DEFAULT_MAX_BODY,
        show_default=True,
        help="The longest HTTP request.",
    ),
)


def http_options(command: F) -> F:
    """Add the options for streamable HTTP; `http` is a host and a port, or None."""
    return reduce(lambda inner, option: option(inner), reversed(HTTP_OPTIONS), command)


def task_options(command: F) -> F:
    """Add the options that choose which tasks `next_task` hands out, in their order."""
    return reduce(lambda inner, option: option(inner), reversed(TASK_OPTIONS), command)


def idle_option(command: F) -> F:
    return click.option(
        "--idle",
        type=click.FloatRange(min=0, min_open=True),
        metavar="SECONDS",
        default=DEFAULT_IDLE,
        callback=finite,
        show_default=True,
        help="An open task ends, and is graded, after so long without a call.",
    )(command)


def log_to_stderr(form: str = "mcp-bench: %(message)s") -> None:
    """Show what goes on. Nothing of it is private: an agent may read its server's stderr."""
    import logging

    from mcp_bench.servers.sanitized_logs import SanitizedFormatter

    shown = logging.StreamHandler(sys.stderr)
    shown.setFormatter(SanitizedFormatter(form))
    logging.basicConfig(handlers=[shown], level=logging.WARNING)
    logging.getLogger("mcp_bench.bridge.interactive").setLevel(logging.INFO)
