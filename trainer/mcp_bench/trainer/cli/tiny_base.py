"""`mcp-bench train tiny-base`: make a tiny base model when none can be downloaded."""

from __future__ import annotations

from pathlib import Path

import click

EPILOG = """\b
Examples:
  mcp-bench train tiny-base --data train.jsonl --out base
  mcp-bench train sft tiny-cpu --data train.jsonl --set model.base=base
"""


@click.command(name="tiny-base", epilog=EPILOG)
@click.option(
    "--data",
    multiple=True,
    required=True,
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Training rows, used only to build the vocabulary (repeatable).",
)
@click.option(
    "--out",
    required=True,
    metavar="FOLDER",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the model.",
)
@click.option(
    "--recipe", default="tiny-cpu", show_default=True, metavar="R", help="Recipe with the architecture."
)
@click.option(
    "--steps", type=click.IntRange(min=1), metavar="N", help="Training steps (default: the full schedule)."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of weights and text.")
def tiny_base(data: tuple[Path, ...], out: Path, recipe: str, steps: int | None, seed: int) -> None:
    """Train a base model with a recipe's architecture from random weights, on two CPU cores.

    It learns to find and copy earlier text, from synthetic text without tasks or tools. It solves no task by
    itself; `mcp-bench train sft` teaches it some.
    """
    from mcp_bench.servers.errors import WrongUseError
    from mcp_bench.trainer.cpu_threads import limit_spinning
    from mcp_bench.trainer.folders import make_folder
    from mcp_bench.trainer.recipe import load_recipe
    from mcp_bench.trainer.rows import read_rows
    from mcp_bench.trainer.sft.progress import Progress
    from mcp_bench.trainer.tiny.base_model import make_base
    from mcp_bench.trainer.tiny.schedule import Schedule

    if out.is_dir() and any(out.iterdir()):
        raise WrongUseError(f"{out} is not empty: choose another folder")
    limit_spinning()
    rows = read_rows(data)
    _, loaded = load_recipe(recipe)
    make_folder(out)  # not after minutes of training
    schedule = Schedule() if steps is None else Schedule(steps=steps)
    progress = Progress(on_gpu=False)

    def on_step(step: int, loss: float, right: float, tokens: int) -> None:
        progress.step(step, schedule.steps, loss, tokens, f"{right:.0%} right")

    try:
        make_base(loaded, rows, out, schedule, seed, on_step)
    finally:
        progress.close()
    click.echo(f"Done: {out}", err=True)
