"""`mcp-bench improve`: generations of a harness, or of a model's weights, behind a gate."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from shlex import quote
from typing import Any

import click

from mcp_bench.bridge.cli.options import http_url, was_given
from mcp_bench.recorder.cli.options import options_of
from mcp_bench.servers.terminal.help_sections import SectionedCommand
from mcp_bench.trainer.cli.trial_options import benchmark_option
from mcp_bench.trainer.improve.settings import Budget, ImproveSettings

SECTIONS = {
    "Tasks": "benchmark task train dev test repeat seed",
    "The agent that is made better": "agent model base-url agent-option harness",
    "Who chooses what to try": (
        "policy feedback-agent feedback-model feedback-base-url feedback-option feedback-timeout reveal"
        " candidate"
    ),
    "Training": "recipe set min-partial rl-steps max-tokens constrain-calls reasoning engine",
    "Limits": "generations patience budget-episodes budget-tokens budget-usd budget-hours jobs",
    "Results": "show html json",
}
EPILOG = """\b
Examples:
  mcp-bench improve better --benchmark saasworld --agent codex --feedback-agent claude-code
  mcp-bench improve better --agent chat --model m --base-url http://127.0.0.1:8000/v1 \\
      --harness my-harness --feedback-agent codex --train 40 --dev 60 --test 60
  mcp-bench improve tried --agent codex --candidate idea-1 --candidate idea-2 --dev 60
  mcp-bench improve both --recipe my.yaml --set model.base=model --policy rule --feedback-agent codex
  mcp-bench improve smaller --benchmark improve --task codec --agent search --model m \\
      --feedback-agent codex
  mcp-bench improve better                       go on after Ctrl-C or a crash
  mcp-bench improve better --budget-hours 9      go on with a larger budget
  mcp-bench improve better --show --html better.html
  mcp-bench improve better --agent codex --feedback-agent codex -- --timeout 300 --isolation uid
"""
BUDGET = tuple(one.name for one in fields(Budget))
LIMITS = ("generations", "patience", *BUDGET)
"""Options that can be given again to go on."""
FOLDER = click.Path(path_type=Path, file_okay=False)


@click.command(cls=SectionedCommand, sections=SECTIONS, epilog=EPILOG)
@click.argument("folder", metavar="DIR", type=FOLDER)
@click.argument("record_options", nargs=-1, metavar="[-- RECORD OPTIONS]")
@options_of(ImproveSettings, base_url=http_url, feedback_base_url=http_url)
@options_of(Budget)
@benchmark_option
@click.option(
    "--task",
    multiple=True,
    metavar="NAME",
    help="Choose among these tasks, or families of them: ids that begin with NAME and a dot (repeatable).",
)
@click.option("--harness", type=FOLDER, metavar="DIR", help="Its harness at the start. Default: none.")
@click.option(
    "--candidate",
    "candidates",
    multiple=True,
    type=FOLDER,
    metavar="DIR",
    help="A harness of yours to try, in place of proposals of an agent (repeatable, in this order).",
)
@click.option(
    "--train",
    default="20",
    show_default=True,
    metavar="N|FILE",
    help="Tasks to learn from: the first N of the split, or the ids in a file.",
)
@click.option(
    "--dev",
    default="40",
    show_default=True,
    metavar="N|FILE",
    help="Tasks that decide: half of them for the gate, half to confirm.",
)
@click.option(
    "--test",
    default="0",
    show_default=True,
    metavar="N|FILE",
    help="Tasks that are only reported; 0 for none.",
)
@click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="Override a value of the recipe; model.base=FOLDER is the model at the start (repeatable).",
)
@click.option("--show", is_flag=True, help="Show what is known so far, and do nothing else.")
@click.option(
    "--html",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the story of the generations as a page with charts.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the history as one JSON document.")
@click.pass_context
def improve(
    ctx: click.Context,
    /,
    folder: Path,
    harness: Path | None,
    candidates: tuple[Path, ...],
    overrides: tuple[str, ...],
    show: bool,
    html: Path | None,
    as_json: bool,
    **choices: Any,
) -> None:
    """Make an agent better: its harness, its model, or both.

    Only what holds on other tasks is kept. Each generation records the agent on training tasks. A feedback
    agent reads the recordings and changes the agent's harness, or has its model trained. The change is
    searched for values of held-out tasks and then measured against the agent as it was, on dev tasks, several
    times each. It is promoted if the interval of the gain is above 0, few tasks break, and it also gains on
    the half of dev that nothing was chosen on. Scores on test are only reported.

    DIR holds everything. The same command with DIR alone goes on where it stopped. Options after `--` are
    passed to `mcp-bench record`.
    """
    from mcp_bench.bridge.cli.settings.defaults import project_line
    from mcp_bench.recorder.html_report.page import check
    from mcp_bench.servers.terminal.sanitize import sanitize_line
    from mcp_bench.trainer.folders import locked
    from mcp_bench.trainer.improve.folder import ImproveFolder
    from mcp_bench.trainer.improve.report import print_history, write_report

    folder = folder.absolute()
    place = ImproveFolder(folder)
    if html is not None:
        check(html)  # before hours of work
    if not show:
        from mcp_bench.trainer.improve.generations import run_improve
        from mcp_bench.trainer.improve.start import begin, begun

        if place.settings.is_file():
            given = {name for name in ctx.params if was_given(ctx, name)} - {"folder", "html", "as_json"}
            if wrong := sorted(given - set(LIMITS)):
                raise click.UsageError(
                    f"{folder} has an improvement with settings of its own: leave out "
                    f"{_flag(ctx, wrong[0])}, or choose another folder"
                )
            changed = {name: choices[name] for name in given}
        else:
            if line := project_line(ctx):
                click.echo(sanitize_line(line), err=True)
            budget = Budget(**{name: choices.pop(name) for name in BUDGET})
            begin(folder, harness, candidates, overrides, {**choices, "budget": budget})
            changed = {}
        click.echo(f"Improvement: {folder}", err=True)
        try:
            with locked(folder):
                settings = begun(folder, changed)
                run_improve(place, settings, lambda line: click.echo(sanitize_line(line), err=True))
        except BaseException:
            click.echo(f"Go on with: mcp-bench improve {quote(str(folder))}", err=True)
            raise
    history = place.history()
    if html is not None:
        for written in write_report(html, place):
            click.echo(f"Wrote {written}", err=True)
    if as_json:
        click.echo(json.dumps(history))
    else:
        print_history(place, history)


def _flag(ctx: click.Context, name: str) -> str:
    found = next(param for param in ctx.command.params if param.name == name)
    return found.opts[0] if isinstance(found, click.Option) else "the options after --"
