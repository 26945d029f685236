"""Options shared by the commands that train and measure models."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from mcp_bench.bridge.cli.options import with_options
from mcp_bench.trainer.cli.engine_option import engine_option

F = TypeVar("F", bound=Callable[..., Any])

TRIAL_OPTIONS = (
    click.option("--recipe", metavar="R", help="Training recipe (see `mcp-bench train recipes`)."),
    click.option(
        "--set",
        "overrides",
        multiple=True,
        metavar="KEY=VALUE",
        help="Override a value of the recipe, such as training.epochs=3 (repeatable).",
    ),
    click.option(
        "--benchmark", default="saasworld", show_default=True, metavar="B", help="Benchmark to run."
    ),
    click.option(
        "--dev",
        default="50",
        show_default=True,
        metavar="N|FILE",
        help="Dev tasks to measure models on: the first N, or the ids in a file.",
    ),
    click.option("--max-tokens", type=click.IntRange(min=1), metavar="N", help="Maximum tokens per answer."),
    click.option(
        "--constrain-calls",
        is_flag=True,
        default=False,
        help="Hold the models' tool calls to the tools' schemas.",
    ),
    click.option(
        "--base-steps",
        type=click.IntRange(min=1),
        metavar="N",
        help="Training steps of the base model that is made if the recipe has none (default: the full "
        "schedule).",
    ),
    click.option(
        "--reasoning",
        type=click.Choice(["keep", "drop"]),
        default="drop",
        show_default=True,
        help="Whether training rows keep the agents' reasoning. Keep it for models that reason.",
    ),
    click.option(
        "--jobs", type=click.IntRange(min=1), default=2, show_default=True, help="Parallel episodes."
    ),
    engine_option(),
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
    """Add the options for the fields of `TrialSettings`, and `--set`, which overrides recipe values."""
    return with_options(*TRIAL_OPTIONS)(command)
