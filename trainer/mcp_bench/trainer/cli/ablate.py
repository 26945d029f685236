"""`mcp-bench ablate`: does the grade of the data matter?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mcp_bench.trainer.cli.trial_options import folder_options, trial_options

if TYPE_CHECKING:
    from mcp_bench.trainer.ablation.settings import AblationSettings

EPILOG = """\b
Examples:
  mcp-bench record --agent codex --split train --limit 100 --repeat 4      good attempts and bad
  mcp-bench ablate --recipe my.yaml --size 100 --seeds 3 --dev 50
  mcp-bench ablate --recipe my.yaml --run run_01kbf3x9qv2m8t0 --size 500 --dev ids.txt --out ablation
  mcp-bench ablate --resume ablation
"""


@click.command(epilog=EPILOG)
@trial_options
@click.option(
    "--run", "runs", multiple=True, metavar="RUN", help="Run to choose from (repeatable; default: all)."
)
@click.option("--size", type=click.IntRange(min=1), metavar="N", help="Rows of each cohort.")
@click.option(
    "--seeds", type=click.IntRange(min=1), default=3, show_default=True, help="Models for each cohort."
)
@folder_options("ablation")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON document.")
def ablate(recipe: str | None, overrides: tuple[str, ...], out: Path | None, resume: Path | None,
           as_json: bool, **choices: Any) -> None:  # fmt: skip
    """Find out whether better graded recordings train a better model.

    Three cohorts are chosen that have the same tasks, each as often: of each task the best, the worst, or any
    attempts. Each trains a model from the same base with the same budget, once for each seed, and all models
    work on the same tasks of dev. The verdict says whether `high` and `low` come apart: by an interval above
    0, and in every seed.

    Ctrl-C stops it; --resume goes on with the step that was not done.
    """
    from mcp_bench.recorder.atomic_file import write_atomic
    from mcp_bench.trainer.ablation.arms import Arms
    from mcp_bench.trainer.ablation.table import print_result
    from mcp_bench.trainer.ablation.verdict import result

    folder, settings = _begun(resume) if resume else _begin(recipe, overrides, out, choices)
    click.echo(f"Ablation: {folder}", err=True)
    try:
        arms = Arms(folder, settings).run(lambda line: click.echo(line, err=True))
    except BaseException:
        click.echo(f"Go on with: mcp-bench ablate --resume {folder}", err=True)
        raise
    found = result(arms)
    write_atomic(folder / "result.json", json.dumps(found, indent=1) + "\n")
    if as_json:
        click.echo(json.dumps(found))
    else:
        print_result(found)


def _begun(folder: Path) -> tuple[Path, AblationSettings]:
    from mcp_bench.servers.errors import WrongUseError
    from mcp_bench.trainer.ablation.settings import AblationSettings

    stored = folder / "ablation.json"
    if not stored.is_file():
        raise WrongUseError(f"no ablation in {folder}: it has no ablation.json")
    return folder.absolute(), AblationSettings.model_validate_json(stored.read_text(encoding="utf-8"))


def _begin(
    recipe: str | None, overrides: tuple[str, ...], out: Path | None, choices: dict[str, Any]
) -> tuple[Path, AblationSettings]:
    from mcp_bench.recorder.atomic_file import write_atomic
    from mcp_bench.recorder.store.reader import run_paths
    from mcp_bench.servers.errors import WrongUseError
    from mcp_bench.trainer.ablation.settings import AblationSettings
    from mcp_bench.trainer.loop.folder import new_folder
    from mcp_bench.trainer.loop.settings import task_ids
    from mcp_bench.trainer.loop.trial_recipe import trial_recipe

    if recipe is None or choices["size"] is None:
        raise WrongUseError("name a --recipe and the --size of the cohorts, or an ablation to --resume")
    runs = [path.name for path in run_paths(choices["runs"])]  # later ones would make cohorts differ
    if not runs:
        raise WrongUseError("there are no runs to choose from: record some (see `mcp-bench record --help`)")
    dev = task_ids(choices["benchmark"], "dev", choices.pop("dev"))
    settings = AblationSettings.model_validate({"recipe": recipe, "dev": dev, **choices, "runs": runs})
    text = trial_recipe(recipe, overrides)
    folder = new_folder(out, "ablations")
    (folder / "recipe.yaml").write_text(text, encoding="utf-8")
    write_atomic(folder / "ablation.json", settings.model_dump_json(indent=1) + "\n")
    return folder, settings
