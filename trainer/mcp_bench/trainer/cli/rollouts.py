"""`mcp-bench train rollouts`: recorded rollouts as rows of other trainers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from mcp_bench.recorder.cli.options import finite

EPILOG = """\b
Examples:
  mcp-bench train rollouts --run run_01kbf3x9qv2m8t0 --format prime-rl --temperature 1 --out rollouts.jsonl
  mcp-bench train rollouts --run run_01kbf3x9qv2m8t0 --format verl --out rollouts.jsonl --json
"""


@click.command(epilog=EPILOG)
@click.option(
    "--run",
    "runs",
    multiple=True,
    required=True,
    metavar="RUN",
    help="Recording of `mcp-bench train rl`, by its id or a unique prefix (repeatable).",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["prime-rl", "verl"]),
    required=True,
    help="Trainer that will read the rows.",
)
@click.option(
    "--baseline",
    type=click.Choice(["scaled", "mean", "others"]),
    default="scaled",
    show_default=True,
    help="For prime-rl: what a reward is compared with, as in grpo, dr-grpo and rloo.",
)
@click.option(
    "--temperature",
    type=click.FloatRange(0, min_open=True),
    callback=finite,
    help="For prime-rl, which needs it: the temperature of sampling, `rl.temperature` of the recipe (1 by "
    "default).",
)
@click.option(
    "--out",
    required=True,
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File to write, with a JSON object on each line.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def rollouts(
    runs: tuple[str, ...], form: Any, baseline: Any, temperature: float | None, out: Path, as_json: bool
) -> None:
    """Write recorded rollouts with their exact tokens, for prime-rl or verl.

    Each row has the tokens of one sequence, which of them the model sampled, and their log-probabilities. The
    reward is the grade; with prime-rl, it is the advantage within the attempts at a task. Tasks of `train`
    only; invalid and tainted episodes are left out.

    `mcp-bench export` writes conversations as text, for training by imitation.
    """
    from contextlib import ExitStack

    from mcp_bench.recorder.atomic_file import write_atomic
    from mcp_bench.recorder.files.replacement import writing
    from mcp_bench.recorder.runs.find import run_paths
    from mcp_bench.recorder.runs.reader import RunReader
    from mcp_bench.servers.errors import FruitlessError, WrongUseError
    from mcp_bench.trainer.folders import make_folder
    from mcp_bench.trainer.rl.rollout_rows import rollout_rows

    if form == "prime-rl" and temperature is None:
        raise WrongUseError(
            "rows for prime-rl have the temperature of sampling, and recordings do not: give --temperature, "
            "`rl.temperature` of the recipe (1 by default)"
        )
    if out.exists():
        raise WrongUseError(f"{out} exists: choose another --out")
    with ExitStack() as stack:
        readers = [stack.enter_context(RunReader(path)) for path in run_paths(runs)]
        made = list(rollout_rows(readers, form, baseline=baseline, temperature=temperature or 1.0))
    if not made:
        raise FruitlessError(
            f"no valid attempt in {', '.join(runs)} has tokens that a policy sampled, so nothing was "
            "written: name a recording of `mcp-bench train rl`"
        )
    make_folder(out.parent)
    with writing(out):
        write_atomic(out, "".join(json.dumps(row) + "\n" for row in made))
    if as_json:
        click.echo(json.dumps({"out": str(out), "format": form, "rows": len(made)}))
    else:
        click.echo(f"Written: {out} ({len(made)} rows for {form})")
