"""`mcp-bench train rft`: learn from a model's own best attempts."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import Any

import click

from mcp_bench.trainer.cli.training_run import recipe_and_options, run

EPILOG = """\b
Examples:
  mcp-bench record --agent chat --base-url URL --model tuned --split train --limit 300 --repeat 4
  mcp-bench train rft tiny-cpu --run run_01kbf3x9qv2m8t0 --set model.base=tuned/model --out better
  mcp-bench train rft my.yaml --run run_01kbf3x9qv2m8t0 --min-partial 0.8 --best 2
  mcp-bench train rft --resume better
"""


@click.command(epilog=EPILOG)
@recipe_and_options
@click.option(
    "--run",
    "runs",
    multiple=True,
    metavar="RUN",
    help="Recording of the model's attempts, by its id or a unique prefix (repeatable).",
)
@click.option(
    "--min-partial",
    type=click.FloatRange(0, 1),
    default=1.0,
    show_default=True,
    help="Least share of a task's assertions that an attempt must meet.",
)
@click.option(
    "--best", type=click.IntRange(1), default=1, show_default=True, help="Most attempts at each task."
)
@click.pass_context
def rft(ctx: click.Context, /, runs: tuple[str, ...], min_partial: float, best: int, **choices: Any) -> None:
    """Fine-tune a model on its own best attempts (rejection sampling, RFT).

    The attempts are exported to OUT.jsonl, and trained on as `mcp-bench train sft` does. The base of the
    recipe is what learns: the model that made the attempts, or the one that it was trained from.
    """
    from mcp_bench.recorder.export.manifest import left_out_path, manifest_path
    from mcp_bench.servers.errors import WrongUseError
    from mcp_bench.trainer.folders import make_folder
    from mcp_bench.trainer.recipe import load_recipe
    from mcp_bench.trainer.sft import processes
    from mcp_bench.trainer.sft.run_folder import RunFolder
    from mcp_bench.trainer.sft.start import check, new_folder
    from mcp_bench.trainer.trial.commands import export

    if choices["resume"] is not None:
        run(ctx, "sft", data=(), **choices)
        return
    if choices["recipe"] is None or not runs:
        raise WrongUseError("name a recipe (see `mcp-bench train recipes`) and a --run, or use --resume")
    _, recipe = load_recipe(choices["recipe"], choices["overrides"])
    check(recipe)
    if processes.count() > 1:
        raise WrongUseError(
            "each process would export: export once (mcp-bench export --run RUN --out FILE), and train "
            "on several devices with mcp-bench train sft --data FILE"
        )
    out: Path = (choices["out"] or new_folder(choices["recipe"])).absolute()  # `.` has no name
    data = out.with_name(f"{out.name}.jsonl")
    if data.exists() or (out.is_dir() and any(out.iterdir())):
        raise WrongUseError(
            f"{out} or {data} exists: resume with --resume {quote(str(out))}, or choose another --out"
        )
    make_folder(out.parent)
    named = [word for name in runs for word in ("--run", name)]
    try:
        export(data, [*named, "--min-partial", str(min_partial), "--best", str(best), "--dedupe", "exact"])
        run(ctx, "sft", data=(data,), **{**choices, "out": out})
    finally:
        # where the training did not begin, the same command can be typed again
        if not RunFolder(out).data.exists():
            for file in (data, manifest_path(data), left_out_path(data)):
                file.unlink(missing_ok=True)
            if choices["out"] is None:
                with suppress(OSError):  # a full disk can have left files in it
                    out.rmdir()
