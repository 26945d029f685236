"""`mcp-bench train`: list recipes, plan a run, and the subcommands that train."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mcp_bench.trainer.cli.base import base
from mcp_bench.trainer.cli.inspect import inspect
from mcp_bench.trainer.cli.preference import dpo, kto
from mcp_bench.trainer.cli.rft import rft
from mcp_bench.trainer.cli.rl import rl
from mcp_bench.trainer.cli.rollouts import rollouts
from mcp_bench.trainer.cli.sft import sft
from mcp_bench.trainer.cli.tiny_base import tiny_base

if TYPE_CHECKING:
    from mcp_bench.trainer.plan import Plan

TRAINING = ("dpo", "kto", "rft", "rl", "sft")
"""Commands that train for long."""
SHOWN = 5
"""Maximum number of dropped rows to list; --json has all."""


GROUP_EPILOG = """\b
Examples:
  mcp-bench train base smollm2-135m
  mcp-bench train plan smollm2-135m-cpu --data train.jsonl --tokenizer smollm2-135m
  mcp-bench train sft smollm2-135m-cpu --data train.jsonl --out tuned
  mcp-bench serve-model tuned/model
"""


@click.group(epilog=GROUP_EPILOG)
@click.pass_context
def train(ctx: click.Context) -> None:
    """Fine-tune models on recordings with recipes. Planning needs no GPU."""
    from mcp_bench.trainer.allocator import prefer_tcmalloc

    if ctx.invoked_subcommand in TRAINING:
        prefer_tcmalloc()


train.add_command(base)
train.add_command(dpo)
train.add_command(inspect)
train.add_command(kto)
train.add_command(rft)
train.add_command(rl)
train.add_command(rollouts)
train.add_command(sft)
train.add_command(tiny_base)


@train.command(
    epilog="""\b
Examples:
  mcp-bench train recipes
  mcp-bench train recipes --json
"""
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def recipes(as_json: bool) -> None:
    """List the built-in recipes and their files, which you can copy and edit."""
    from mcp_bench.trainer.recipe import load_recipe, shipped

    rows = [
        {"name": name, "summary": load_recipe(name)[1].summary, "path": str(path)}
        for name, path in shipped().items()
    ]
    if as_json:
        click.echo(json.dumps(rows))
        return
    width = max(len(row["name"]) for row in rows)
    for row in rows:
        click.echo(f"{row['name']:<{width}}  {row['summary']}\n{'':<{width}}  {row['path']}")


@train.command(
    epilog="""\b
Examples:
  mcp-bench train settings
  mcp-bench train settings rl.guards
  mcp-bench train settings training.precision
  mcp-bench train settings --json
"""
)
@click.argument("key", default="")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def settings(key: str, as_json: bool) -> None:
    """List what a recipe may set, with the defaults: a section, a KEY, or all."""
    from mcp_bench.trainer import recipe_settings

    found = recipe_settings.settings(key)
    if as_json:
        click.echo(json.dumps([asdict(one) for one in found]))
        return
    for one in found:
        default = one.default if one.default == "required" else f"default {one.default}"
        click.echo(f"{click.style(one.key, bold=True)}  {one.values}; {default}")
        click.echo(click.wrap_text(one.description, 90, "    ", "    "))


PLAN_EPILOG = """\b
Examples:
  mcp-bench train plan tiny-cpu
  mcp-bench train plan qwen3.5-9b-8xh100-64k --set data.max_length=131072
  mcp-bench train plan my.yaml --data train.jsonl --tokenizer ./Qwen3-8B --json
  mcp-bench train plan qwen3-8b-8xh100-cp --write .
"""


@train.command(epilog=PLAN_EPILOG)
@click.argument("recipe")
@click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="Override a value of the recipe, such as data.max_length=8192 (repeatable).",
)
@click.option(
    "--data",
    multiple=True,
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Training rows from `mcp-bench export --format trl` (repeatable).",
)
@click.option(
    "--tokenizer",
    metavar="NAME",
    help="Folder or Hub name of the tokenizer, to count the tokens of --data and check the chat template.",
)
@click.option(
    "--write",
    metavar="FOLDER",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write a Slurm script to this folder.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def plan(
    recipe: str,
    overrides: tuple[str, ...],
    data: tuple[Path, ...],
    tokenizer: str | None,
    write: Path | None,
    as_json: bool,
) -> None:
    """Estimate what a recipe needs, without a GPU: parameters, memory per device, tokens per step, steps.

    RECIPE is the name of a built-in recipe (see `mcp-bench train recipes`) or the path of a YAML file.
    Recipes that cannot work are refused with the reason, such as too little memory, or splitting sequences
    of a model with linear attention. Memory is estimated by formula, and for a recipe with a section `rl`
    also that of `train rl`, with the engine in its process.

    With --data and --tokenizer, all rows are tokenised. Rows are listed that are malformed, too long,
    without trainable tokens, or with calls that the chat template leaves out. The prompt that a server
    renders before each turn must be a prefix of the training text.

    Exits with 2 if the recipe is refused.
    """
    from mcp_bench.trainer.launch import launch_line, write_slurm_script
    from mcp_bench.trainer.plan import plan_recipe
    from mcp_bench.trainer.refusals import refuse

    loaded, made = plan_recipe(recipe, overrides, data, tokenizer)
    line = launch_line(loaded, recipe, overrides, [str(path) for path in data], tokenizer)
    if as_json:
        click.echo(json.dumps(_document(made, line)))
    else:
        _show(made, line)
    refuse(made.refused)
    if write is not None:
        click.echo(f"Written: {write_slurm_script(loaded, recipe, write, line)}", err=True)


def _document(plan: Plan, line: str) -> dict[str, Any]:
    from dataclasses import asdict

    return {**asdict(plan), "total": plan.total, "needed": plan.needed, "launch": line}


def _show(plan: Plan, line: str) -> None:
    from mcp_bench.servers.terminal.sanitize import sanitize

    parts = ", ".join(f"{part} {_count(number)}" for part, number in plan.parameters.items() if number)
    memory = ", ".join(f"{part} {_bytes(size)}" for part, size in plan.memory.items() if size)
    lines = [
        ("recipe", f"{plan.recipe}: {plan.summary}"),
        ("parameters", f"{_count(plan.total)} ({parts})"),
        ("trained", f"{_count(plan.trained)} ({plan.trained / plan.total:.1%} of the model)"),
        ("devices", f"{plan.devices}, {plan.device_tokens:,} tokens on each at once"),
        ("memory", f"about {_bytes(plan.needed)} of {_bytes(plan.device_bytes)} per device ({memory})"),
    ]
    if plan.learning:
        parts = ", ".join(f"{part} {_bytes(size)}" for part, size in plan.learning.items())
        lines.append(("train rl", f"about {_bytes(sum(plan.learning.values()))} with its engine ({parts})"))
    if plan.host_bytes:
        lines.append(("host memory", f"{_bytes(plan.host_bytes)} per device, for layer inputs"))
    lines.append(("step", f"{plan.sequences_per_step} sequences, up to {plan.tokens_per_step:,} tokens"))
    if plan.rows is None:
        lines.append(("steps", "unknown without --data"))
    else:
        steps = "unknown without --tokenizer, since rows are packed"
        if plan.steps is not None:
            steps = f"{plan.steps} ({plan.steps_per_epoch} per epoch)"
        lines += [("rows", str(plan.rows)), ("steps", steps)]
    if plan.data:
        tokens, trained = plan.data["tokens"], plan.data["trained_tokens"]
        figures = f"{tokens:,}, {trained:,} of them trained ({trained / tokens:.1%}); longest row "
        lines.append(("tokens", figures + f"{plan.data['longest']:,}"))
        if masked := plan.data["masked_tokens"]:
            lines.append(
                (
                    "masked",
                    f"{masked:,} tokens in turns of failed calls, or of weight 0: read, not trained on",
                )
            )
        lines += _dropped(plan.data)
        lines.append(("templates", "every served prefix is a prefix of its training text"))
    lines.append(("start with", line))
    for label, text in lines:
        click.echo(sanitize(f"{label:<12}{text}"))


def _dropped(data: dict[str, Any]) -> list[tuple[str, str]]:
    long = [f"{row['place']} ({row['tokens']:,} tokens)" for row in data["too_long"]]
    shown = []
    reasons = ("too long", long), ("untrainable", data["untrainable"]), ("lost calls", data["unshown"])
    for label, places in reasons:
        if places:
            more = f" and {len(places) - SHOWN} more" if len(places) > SHOWN else ""
            shown.append((label, f"{len(places)} dropped: {', '.join(places[:SHOWN])}{more}"))
    return shown


def _count(number: int) -> str:
    for unit, size in (("B", 10**9), ("M", 10**6), ("k", 10**3)):
        if number >= size:
            return f"{number / size:.2f}{unit}"
    return str(number)


def _bytes(size: int) -> str:
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 // 10 else f"{size / 2**20:.1f} MiB"
