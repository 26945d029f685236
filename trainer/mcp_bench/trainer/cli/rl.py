"""`mcp-bench train rl`: learn from reward on live worlds."""

from __future__ import annotations

import json
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, get_args

import click

from mcp_bench.trainer.cli.training_run import REPORT_TO
from mcp_bench.trainer.cli.trial_options import benchmark_option
from mcp_bench.trainer.methods import Learning

if TYPE_CHECKING:
    from mcp_bench.trainer.recipe import Recipe
    from mcp_bench.trainer.rl.folder import RLFolder

EPILOG = """\b
Examples:
  mcp-bench tasks saasworld --split train --tag level-1 --ids > ids.txt
  mcp-bench train rl tiny-cpu-grpo --start loop/turn-1/train/model --tasks ids.txt --steps 40
  mcp-bench train rl tiny-cpu-grpo --start model --tasks ids.txt --dev dev-ids.txt --algorithm rloo
  mcp-bench train rl tiny-cpu-rft --start model --tasks ids.txt --algorithm rft --steps 10 --jobs 16
  mcp-bench train rl smollm2-135m-grpo --start model --tasks 500 --set rl.attempts=16 --out learned
  mcp-bench train rl smollm2-135m-grpo --start model --tasks ids.txt --agent codex --jobs 2
  mcp-bench train rl tiny-cpu-grpo --start model --benchmark improve --tasks ids.txt --agent search \\
      -- --agent-option driver=icl --agent-option max_steps=4
  mcp-bench train rl tiny-cpu-grpo --start model --tasks ids.txt --algorithm sdpo
  mcp-bench train rl tiny-cpu-grpo --start model --tasks ids.txt --algorithm opd --follow larger-model
  mcp-bench train rl tiny-cpu-grpo --start model --tasks ids.txt --report-to tensorboard
  mcp-bench train rl --resume learned
  torchrun --nproc-per-node=8 -m -- mcp_bench.bridge.cli.root train rl --resume learned
"""


@click.command(epilog=EPILOG)
@click.argument("recipe", required=False)
@click.argument("record_options", nargs=-1, metavar="[-- RECORD OPTIONS]")
@click.option(
    "--start",
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    help="Model to start from: a folder, or the name of a fetched base. It must solve some tasks sometimes.",
)
@click.option(
    "--algorithm",
    type=click.Choice(get_args(Learning)),
    default="grpo",
    show_default=True,
    help="How attempts get credit, or whom the model follows (sdpo, opd).",
)
@click.option(
    "--follow",
    "teacher",
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    help="With opd: the model that is followed, as for --start. Its vocabulary is that of the start.",
)
@click.option(
    "--agent",
    default="chat",
    show_default=True,
    metavar="A",
    help="Agent that the model works in, such as codex or claude-code.",
)
@benchmark_option
@click.option(
    "--tasks",
    metavar="N|FILE",
    default="500",
    show_default=True,
    help="Training tasks: the first N of the split, or the ids in a file.",
)
@click.option(
    "--canaries",
    metavar="FILE",
    help="Ids of training tasks that cannot be solved: any grade above 0 for one of them stops the run.",
)
@click.option("--dev", metavar="N|FILE", help="Tasks to measure the policy on. Default: none.")
@click.option(
    "--dev-every",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    metavar="N",
    help="Steps between these measurements.",
)
@click.option(
    "--steps",
    type=click.IntRange(1),
    default=40,
    show_default=True,
    help="Rounds of attempts, each followed by updates.",
)
@click.option("--jobs", type=click.IntRange(1), default=8, show_default=True, help="Parallel episodes.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of tasks and worlds.")
@click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="Override a value of the recipe, such as rl.groups=4 (repeatable).",
)
@click.option(
    "--out",
    metavar="FOLDER",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the run. Default: a new one in $MCP_BENCH_HOME/learning.",
)
@click.option(
    "--resume",
    metavar="FOLDER",
    type=click.Path(path_type=Path, file_okay=False),
    help="Resume a run from its last complete checkpoint.",
)
@REPORT_TO
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_context
def rl(
    ctx: click.Context,
    /,
    recipe: str | None,
    start: Path | None,
    overrides: tuple[str, ...],
    out: Path | None,
    resume: Path | None,
    report_to: tuple[str, ...],
    as_json: bool,
    **choices: Any,
) -> None:
    """Let a model learn from the rewards of its own attempts.

    In each step the model attempts some training tasks, several times each. The attempts are recorded and
    graded like those of any agent. Those that earn more than the others of their group become more likely.
    RECIPE is the name of a built-in recipe or the path of a YAML file; its section `rl` has the settings.

    With sdpo, the model follows itself: its teacher has seen a solved attempt, and what failed. With opd, it
    follows another model. The run stops at its start if the teacher scores lower than the model.

    The model is trained on exactly the tokens that it sampled. Guards stop a run that collapses, and name
    the last good checkpoint. Ctrl-C stops; --resume continues with the last checkpoint.

    Options after -- go to `mcp-bench record`, such as --agent-option.
    """
    from mcp_bench.bridge.cli.options import refuse_given
    from mcp_bench.servers.errors import WrongUseError
    from mcp_bench.trainer.cpu_threads import limit_spinning

    if resume is not None:
        own = set(ctx.params) - {"resume", "report_to", "as_json"}
        refuse_given(ctx, own, "--resume keeps the run's own settings")
    limit_spinning()
    from mcp_bench.trainer.recipe import load_recipe
    from mcp_bench.trainer.rl.folder import RLFolder
    from mcp_bench.trainer.rl.start import begin
    from mcp_bench.trainer.rl.together import from_first, join
    from mcp_bench.trainer.rl.trackers import check_installed
    from mcp_bench.trainer.sft import processes

    check_installed(report_to)
    if resume is not None:
        folder = RLFolder(resume.absolute())
        folder.read()
        _, loaded = load_recipe(str(folder.recipe))
        join(loaded)
    else:
        if recipe is None or start is None:
            raise WrongUseError("name a recipe (see `mcp-bench train recipes`) and --start, or use --resume")
        _, loaded = load_recipe(recipe, overrides)
        join(loaded)
        made = begin(recipe, overrides, start, out, choices).path if processes.rank() == 0 else ""
        folder = RLFolder(Path(from_first(str(made))))
    done = _learn(folder, loaded, report_to, first=processes.rank() == 0)
    if as_json and done is not None:
        click.echo(json.dumps(done))


def _learn(
    folder: RLFolder, recipe: Recipe, report_to: tuple[str, ...], *, first: bool
) -> dict[str, Any] | None:
    """Run what is left, and return a summary; None in other processes than the first."""
    from mcp_bench.servers.errors import FruitlessError
    from mcp_bench.trainer.rl.prepare import learn_along
    from mcp_bench.trainer.rl.run import learn
    from mcp_bench.trainer.rl.together import leave
    from mcp_bench.trainer.rl.trackers import trackers

    def report(line: str) -> None:
        click.echo(line, err=True)

    try:
        if not first:
            learn_along(folder, recipe)
            return None
        click.echo(f"Run: {folder.path}", err=True)
        if folder.model.is_dir():
            click.echo(f"{folder.path} is already complete: {folder.model}", err=True)
            return folder.summary()
        with trackers(report_to, folder.path, report) as track:
            done = learn(folder, recipe, report, track)
        click.echo(f"Done: {done['model']}", err=True)
        return done
    except BaseException as error:
        if first and not isinstance(error, FruitlessError):
            click.echo(f"Resume with: mcp-bench train rl --resume {quote(str(folder.path))}", err=True)
        raise
    finally:
        leave()
