"""`mcp-bench train sft`: fine-tune a model on exported rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from mcp_bench.trainer.cli.training_run import run, run_options

EPILOG = """\b
Examples:
  mcp-bench export --min-partial 0.5 --out train.jsonl
  mcp-bench train sft qwen3.5-9b-lora-1gpu --data train.jsonl
  mcp-bench train sft tiny-cpu --data train.jsonl --tokenizer ./my-tokenizer --out tuned
  mcp-bench train sft my.yaml --data train.jsonl --set training.epochs=3 --report-to tensorboard
  mcp-bench train sft smollm2-135m-cpu --data train.jsonl --eval-data held-out.jsonl
  mcp-bench train sft --resume tuned
"""


@click.command(epilog=EPILOG)
@run_options("Training rows from `mcp-bench export --format trl` (repeatable).")
@click.option(
    "--eval-data",
    multiple=True,
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Held-out rows, to score the model on while it learns (repeatable).",
)
@click.pass_context
def sft(ctx: click.Context, /, **choices: Any) -> None:
    """Fine-tune a model on exported rows. The loss covers only the assistant's tokens.

    RECIPE is the name of a built-in recipe (see `mcp-bench train recipes`) or the path of a YAML file. Rows,
    lengths and chat template are checked before the model is loaded, as in `mcp-bench train plan`.

    Each run has a folder. `model/` holds the result, ready to serve; `metrics.jsonl` has a line per step.
    With --eval-data, `evaluations.jsonl` has the loss on held-out rows and the number of turns that the model
    would say exactly as recorded: before training, every `training.eval_every` steps, and at the end.
    Ctrl-C finishes the current step and saves a checkpoint. --resume continues a stopped or killed run.

    Exits with 0 when the run is complete, with 3 when no row can be used or the loss diverged, and with 1
    when it was stopped or failed.
    """
    run(ctx, "sft", **choices)
