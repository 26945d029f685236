"""`mcp-bench best-of`: what a choice among several attempts is worth, by something that sees no grade."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mcp_bench.bridge.cli.options import judge_options, splits_option
from mcp_bench.recorder.cli.run_options import run_options

if TYPE_CHECKING:
    from mcp_bench.bridge.memory.best_of import Choice, Measured

EPILOG = """\b
Examples:
  mcp-bench record --agent chat --model M --split dev --repeat 4
  mcp-bench best-of --repeat 4                   the final state that most attempts reached
  mcp-bench best-of --repeat 4 --judge-model M2  the attempt that a model prefers
"""


@click.command(name="best-of", epilog=EPILOG)
@run_options
@click.option(
    "--repeat",
    "n",
    type=click.IntRange(min=2),
    default=4,
    show_default=True,
    metavar="K",
    help="Attempts at each task.",
)
@splits_option
@judge_options
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write what was chosen, and what the model was asked, as JSON lines.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def best_of(
    runs: tuple[str, ...],
    run_tags: tuple[str, ...],
    n: int,
    splits: tuple[str, ...],
    out: Path | None,
    as_json: bool,
    **judge: Any,
) -> None:
    """Choose one of several attempts, without their grades.

    The attempts were recorded, and the choice is measured. By default, the choice is the earliest attempt
    with the final state that most attempts reached, or with the answer that most gave if all left the same
    state. With --judge-model, a model reads the attempts. The grades then say how often the choice was right,
    beside a single attempt and beside the best one. N attempts cost N times as much: the tokens are printed,
    too.
    """
    import os
    from tempfile import TemporaryFile

    import anyio

    from mcp_bench.bridge.memory.best_of import by_agreement, by_judge, measure, read_tries
    from mcp_bench.bridge.memory.edit import writing
    from mcp_bench.bridge.memory.judge import Judge, answers_kept, asked_lines, judge_of
    from mcp_bench.bridge.roles.models import Roles
    from mcp_bench.recorder.atomic_file import write_atomic
    from mcp_bench.recorder.verify.damage import undamaged

    roles = judge_of(judge, os.environ)
    if out is not None:
        with writing(out), TemporaryFile(dir=out.parent):  # before a model is paid for its choices
            pass
    tries, fewer = read_tries(undamaged(runs, tags=run_tags), splits, n)

    async def ask(roles: Roles, kept: Path) -> tuple[list[Choice], Measured, str]:
        async with Judge(roles, kept) as model:
            made = [await by_judge(one, model) for one in tries]
            chosen = [choice for choice, _ in made]
            useless = sum(not useful for _, useful in made)
            return chosen, measure(chosen, model, useless), asked_lines(model.asked)

    def write(choices: Sequence[Choice], asked: str) -> None:
        if out is not None:
            with writing(out):
                write_atomic(out, "".join(map(line_of, choices)) + asked)

    if roles is None:
        choices = [by_agreement(one) for one in tries]
        found = measure(choices)
        write(choices, "")
    else:
        with answers_kept("best-of", judge, [runs, run_tags, splits, n]) as kept:
            choices, found, asked = anyio.run(ask, roles, kept)
            write(choices, asked)
    if as_json:
        click.echo(json.dumps({**asdict(found), "tasks_with_fewer": fewer}))
    else:
        show(found, fewer, judged=roles is not None)


def line_of(choice: Choice) -> str:
    """Return what was chosen at a task as a line of JSON."""
    document = {
        "task": choice.tries[0].attempt.task,
        "chosen": choice.tries[choice.chosen].attempt.episode.id,
        "agreed": choice.agreed,
        "attempts": [one.attempt.episode.id for one in choice.tries],
    }
    return json.dumps(document) + "\n"


def show(found: Measured, fewer: int, *, judged: bool) -> None:
    """Print what the choices are worth.

    Args:
        found: the figures.
        fewer: how many tasks had fewer attempts.
        judged: whether a model chose.
    """
    spread = f" [{found.gain[0]:+.3f}, {found.gain[1]:+.3f}]" if found.gain else ""
    of = f"{found.tasks} tasks" + (f" in {found.groups} groups" if found.groups > found.tasks else "")
    click.echo(f"{of}, {found.n} attempts each" + (f"; {fewer} had fewer" if fewer else ""))
    click.echo(f"strict: one attempt {found.one:.3f}, chosen {found.chosen:.3f}, any {found.any:.3f}")
    click.echo(f"gain over one attempt: {found.chosen - found.one:+.3f}{spread}")
    if found.tokens_one is None:
        click.echo(f"tokens: unknown; {found.n} attempts instead of one")
    else:
        all_of_them = found.n * found.tokens_one + found.tokens_judge
        click.echo(f"tokens for a task: one attempt {found.tokens_one:,.0f}, chosen {all_of_them:,.0f}")
    if judged:
        click.echo(
            f"the judge: {found.tokens_judge:,.0f} tokens for a task, ${found.usd_judge:.4f} in all; "
            f"{found.useless} of its answers chose nothing"
        )
