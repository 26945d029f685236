"""How every command chooses among the recorded runs: `--run` and `--run-tag`, or runs as arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from mcp_bench.recorder.runs.names import RUN_HELP, RUN_TAG_HELP

Command = TypeVar("Command", bound=Callable[..., Any])

NOTHING = "no recordings yet. Make some: mcp-bench record --agent oracle --limit 5"

runs_argument = click.argument("named", nargs=-1, metavar="[RUN]...")
"""The same as `--run`, for commands that have no other argument."""


def run_options(command: Command) -> Command:
    """Add the options; the command gets `runs` and `run_tags`, for `run_paths(runs, tags=run_tags)`."""
    tagged = click.option("--run-tag", "run_tags", multiple=True, metavar="TAG", help=RUN_TAG_HELP)
    return click.option("--run", "runs", multiple=True, metavar="RUN", help=RUN_HELP)(tagged(command))
