"""`mcp-bench ablate`: test whether the grades of training data matter."""

from __future__ import annotations

import json
from pathlib import Path
from shlex import quote
from typing import Any

import click

from mcp_bench.recorder.cli.options import options_of
from mcp_bench.recorder.cli.run_options import run_options
from mcp_bench.trainer.ablation.settings import AblationSettings
from mcp_bench.trainer.cli.trial_options import folder_options, trial_options
from mcp_bench.trainer.trial.settings import TrialSettings

EPILOG = """\b
Examples:
  mcp-bench record --agent codex --split train --limit 100 --repeat 4
  mcp-bench ablate --recipe my.yaml --size 100 --seeds 3 --dev 50
  mcp-bench ablate --recipe my.yaml --run run_01kbf3x9qv2m8t0 --size 500 --dev ids.txt --out ablation
  mcp-bench ablate --resume ablation
"""


@click.command(epilog=EPILOG)
@trial_options
@options_of(TrialSettings)
@run_options
@options_of(AblationSettings, "size", "seeds")
@folder_options("ablation")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON document.")
@click.pass_context
def ablate(
    ctx: click.Context,
    /,
    recipe: str | None,
    overrides: tuple[str, ...],
    out: Path | None,
    resume: Path | None,
    as_json: bool,
    **choices: Any,
) -> None:
    """Test whether better grades train a better model.

    Selects three cohorts with the same tasks, each equally often: the best attempts (`high`), the worst
    (`low`) and any (`random`). Each cohort trains one model per seed, from the same base with the same
    budget. All models are measured on the same dev tasks. `high` and `low` count as separated if the
    interval of their difference is above 0 and `high` is better in every seed.

    Ctrl-C stops the ablation. --resume continues with the first unfinished step.
    """
    from mcp_bench.bridge.cli.options import refuse_given
    from mcp_bench.servers.errors import FruitlessError, WrongUseError
    from mcp_bench.trainer.ablation.start import begin, begun, run
    from mcp_bench.trainer.ablation.table import print_result

    if resume is not None:
        own = set(ctx.params) - {"resume", "as_json"}
        refuse_given(ctx, own, "--resume keeps the ablation's own settings")
        folder, settings = begun(resume)
    elif recipe is None or choices["size"] is None:
        raise WrongUseError("use --recipe and --size to start an ablation, or --resume to continue one")
    else:
        folder, settings = begin(recipe, overrides, out, choices)
    click.echo(f"Ablation: {folder}", err=True)
    try:
        found = run(folder, settings, lambda line: click.echo(line, err=True))
    except BaseException as error:
        if not isinstance(error, FruitlessError):
            click.echo(f"Resume with: mcp-bench ablate --resume {quote(str(folder))}", err=True)
        raise
    if as_json:
        click.echo(json.dumps(found))
    else:
        print_result(found)
