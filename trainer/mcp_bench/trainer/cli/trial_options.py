"""Options of the commands that train models and measure them: how, on what, and with what."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

TRIAL_OPTIONS = (
    click.option("--recipe", metavar="R", help="Recipe to train by: see `mcp-bench train recipes`."),
    click.option(
        "--set",
        "overrides",
        multiple=True,
        metavar="KEY=VALUE",
        help="Put a value over the recipe's, such as training.epochs=3 (repeatable).",
    ),
    click.option(
        "--benchmark", default="saasworld", show_default=True, metavar="B", help="What is worked on."
    ),
    click.option(
        "--dev",
        default="50",
        show_default=True,
        metavar="N|FILE",
        help="Tasks of dev that models are measured on: the first N, or the ids in a file.",
    ),
    click.option(
        "--max-tokens", type=click.IntRange(min=1), metavar="N", help="Tokens of each answer at most."
    ),
    click.option(
        "--base-steps",
        type=click.IntRange(min=1),
        metavar="N",
        help="Training steps of the base model that is made where the recipe has none (default: all it "
        "takes).",
    ),
    click.option(
        "--reasoning",
        type=click.Choice(["keep", "drop"]),
        default="drop",
        show_default=True,
        help="What becomes of the agents' reasoning in what is learned from; keep it for one that thinks.",
    ),
    click.option(
        "--jobs", type=click.IntRange(min=1), default=2, show_default=True, help="Episodes at once."
    ),
    click.option(
        "--engine",
        type=click.Choice(["auto", "vllm", "transformers"]),
        default="auto",
        show_default=True,
        help="What serves the models.",
    ),
)


def folder_options(noun: str) -> Callable[[F], F]:
    """Return what adds `out` and `resume`: where a trial is kept, and which one is gone on with."""
    folder = click.Path(path_type=Path, file_okay=False)
    out = f"Folder of the {noun}. Default: a new one in $MCP_BENCH_HOME/{noun}s."
    resume = f"Go on with the {noun} in it, which was stopped; its own settings hold."

    def add(command: F) -> F:
        command = click.option("--resume", metavar="FOLDER", type=folder, help=resume)(command)
        return click.option("--out", metavar="FOLDER", type=folder, help=out)(command)

    return add


def trial_options(command: F) -> F:
    """Add the options that `TrialSettings` is made of, and `overrides`, what is put over the recipe."""
    return reduce(lambda inner, option: option(inner), reversed(TRIAL_OPTIONS), command)
