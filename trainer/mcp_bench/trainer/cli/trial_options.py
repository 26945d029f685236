"""Options shared by the commands that train and measure models."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from mcp_bench.bridge.cli.options import with_options

F = TypeVar("F", bound=Callable[..., Any])

benchmark_option = click.option(
    "--benchmark", default="saasworld", show_default=True, metavar="B", help="Benchmark to run."
)
TRIAL_OPTIONS = (
    click.option("--recipe", metavar="R", help="Training recipe (see `mcp-bench train recipes`)."),
    click.option(
        "--set",
        "overrides",
        multiple=True,
        metavar="KEY=VALUE",
        help="Override a value of the recipe, such as training.epochs=3 (repeatable).",
    ),
    benchmark_option,
    click.option(
        "--dev",
        default="50",
        show_default=True,
        metavar="N|FILE",
        help="Dev tasks to measure models on: the first N, or the ids in a file.",
    ),
)


def folder_options(noun: str) -> Callable[[F], F]:
    """Return a decorator that adds `--out` and `--resume` to a command."""
    folder = click.Path(path_type=Path, file_okay=False)
    out = f"Folder for the {noun}. Default: a new one in $MCP_BENCH_HOME/{noun}s."
    resume = f"Resume a stopped {noun} with its stored settings."

    def add(command: F) -> F:
        command = click.option("--resume", metavar="FOLDER", type=folder, help=resume)(command)
        return click.option("--out", metavar="FOLDER", type=folder, help=out)(command)

    return add


def trial_options(command: F) -> F:
    """Add the options that name a recipe and tasks; those of `TrialSettings` follow."""
    return with_options(*TRIAL_OPTIONS)(command)
