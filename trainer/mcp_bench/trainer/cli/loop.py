"""`mcp-bench loop`: repeat recording, training and measuring."""

from __future__ import annotations

import json
from pathlib import Path
from shlex import quote
from typing import Any

import click

from mcp_bench.recorder.cli.options import options_of
from mcp_bench.servers.terminal.help_sections import SectionedCommand
from mcp_bench.trainer.cli.trial_options import folder_options, trial_options
from mcp_bench.trainer.loop.settings import LoopSettings

SECTIONS = {
    "Tasks": "benchmark train dev test",
    "Teacher": "teacher teacher-model teacher-option",
    "Training": "recipe set base-steps algorithm rl-steps min-partial margin reasoning",
    "The model's own attempts": "attempts temperature seed",
    "Serving and measuring": "engine host max-tokens constrain-calls jobs",
    "Turns": "turns patience",
    "The folder": "out resume show json",
}
EPILOG = """\b
Examples:
  mcp-bench tasks saasworld --split train --tag level-1 --limit 100 --ids > ids.txt
  mcp-bench loop --recipe tiny-cpu --turns 1 --train ids.txt --dev dev-ids.txt --test 0
  mcp-bench loop --recipe my.yaml --turns 3 --train ids.txt --dev dev-ids.txt --out loop
  mcp-bench loop --recipe qwen3.5-9b-lora-1gpu --teacher codex --turns 3 --train 500 --dev 100
  mcp-bench loop --recipe tiny-cpu --turns 2 --algorithm grpo --rl-steps 40 --train 300 --dev 50
  mcp-bench loop --recipe tiny-cpu --train 300 --dev 50 --jobs 32 -- --ray
  mcp-bench loop --resume loop
  mcp-bench loop --show loop-0 --show loop-1
"""


@click.command(cls=SectionedCommand, sections=SECTIONS, epilog=EPILOG)
@click.argument("record_options", nargs=-1, metavar="[-- RECORD OPTIONS]")
@trial_options
@options_of(LoopSettings)
@click.option(
    "--train",
    default="100",
    show_default=True,
    metavar="N|FILE",
    help="Training tasks: the first N of the split, or the ids in a file.",
)
@click.option(
    "--test",
    default="50",
    show_default=True,
    metavar="N|FILE",
    help="Test tasks, used for reported scores only; 0 for none.",
)
@folder_options("loop")
@click.option(
    "--show",
    "shown",
    multiple=True,
    metavar="FOLDER",
    type=click.Path(path_type=Path, file_okay=False),
    help="Print the scores of a finished loop. Repeat the option to average several loops.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the history as one JSON document.")
@click.pass_context
def loop(
    ctx: click.Context,
    /,
    recipe: str | None,
    overrides: tuple[str, ...],
    out: Path | None,
    resume: Path | None,
    shown: tuple[Path, ...],
    as_json: bool,
    **choices: Any,
) -> None:
    """Record, export, train, serve and measure, turn after turn.

    The teacher attempts the training tasks. Its successful attempts are exported; a model is trained on them,
    served, and measured on `dev` and `test` like any other agent. From the second turn on, the model's own
    best attempts are added, or the model learns as --algorithm says. A model is promoted if it fixes at least
    as many `dev` tasks as it breaks and its mean score on them is higher.

    Options after `--` are passed to `mcp-bench record`, for all recordings. Ctrl-C stops the loop. --resume
    continues with the first unfinished step.
    """
    from mcp_bench.bridge.cli.options import refuse_given
    from mcp_bench.bridge.cli.settings.defaults import project_line
    from mcp_bench.servers.errors import FruitlessError, WrongUseError
    from mcp_bench.servers.terminal.sanitize import sanitize_line
    from mcp_bench.trainer.loop.folder import LoopFolder
    from mcp_bench.trainer.loop.score_table import print_scores
    from mcp_bench.trainer.loop.start import begin
    from mcp_bench.trainer.loop.turns import run_loop

    if shown:
        histories = [LoopFolder(path).history() for path in shown]
        if as_json:
            click.echo(json.dumps(histories))
        else:
            print_scores(histories)
        return
    if resume is not None:
        own = set(ctx.params) - {"resume", "as_json"}
        refuse_given(ctx, own, "--resume keeps the loop's own settings")
        folder = LoopFolder(resume.absolute())
        settings = folder.read()
    else:
        if recipe is None:
            raise WrongUseError(
                "use --recipe (see `mcp-bench train recipes`) to start a loop, or --resume to continue one"
            )
        if line := project_line(ctx):
            click.echo(sanitize_line(line), err=True)
        folder, settings = begin(recipe, overrides, out, choices)
    click.echo(f"Loop: {folder.path}", err=True)
    try:
        history = run_loop(folder, settings, lambda line: click.echo(line, err=True))
    except BaseException as error:
        if not isinstance(error, FruitlessError):
            click.echo(f"Resume with: mcp-bench loop --resume {quote(str(folder.path))}", err=True)
        raise
    if as_json:
        click.echo(json.dumps(history))
    else:
        print_scores([history])
    click.echo(f"Best model: {history['best']['model']}", err=True)
