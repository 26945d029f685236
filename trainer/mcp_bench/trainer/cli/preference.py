"""`mcp-bench train dpo` and `mcp-bench train kto`: learn which of two attempts was better."""

from __future__ import annotations

from typing import Any

import click

from mcp_bench.trainer.cli.training_run import run, run_options

DATA = "Pairs from `mcp-bench export --pairs` (repeatable)."
EPILOG = """\b
Examples:
  mcp-bench record --agent chat --base-url URL --model tuned --split train --limit 300 --repeat 4
  mcp-bench export --pairs --margin 0.3 --out pairs.jsonl
  mcp-bench train {0} tiny-cpu --set model.base=tuned/model --data pairs.jsonl --out preferred
  mcp-bench train {0} my.yaml --data pairs.jsonl --set preference.beta=0.3
  mcp-bench train {0} --resume preferred
"""


@click.command(epilog=EPILOG.format("dpo"))
@run_options(DATA)
@click.pass_context
def dpo(ctx: click.Context, /, **choices: Any) -> None:
    """Learn from pairs of attempts at a task: make the better one more likely than the worse one (DPO).

    The base of the recipe is the start, to which the model is held by `preference.beta`: usually a model that
    was trained with `train sft`. The loss covers the assistant's tokens of both attempts, never the results
    of tools. The learning rate is `preference.learning_rate`.

    Folder, checks, Ctrl-C and --resume are those of `mcp-bench train sft`.
    """
    run(ctx, "dpo", **choices)


@click.command(epilog=EPILOG.format("kto"))
@run_options(DATA)
@click.pass_context
def kto(ctx: click.Context, /, **choices: Any) -> None:
    """Learn from good and bad attempts, each for itself (KTO).

    Like `mcp-bench train dpo`, but the two attempts of a pair are not compared with each other:
    `preference.desirable` and `preference.undesirable` weigh them.

    Folder, checks, Ctrl-C and --resume are those of `mcp-bench train sft`.
    """
    run(ctx, "kto", **choices)
