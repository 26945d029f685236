"""What the commands that train on files share: their options, and their course."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from mcp_bench.bridge.cli.options import refuse_given, with_options
from mcp_bench.trainer.methods import Method

if TYPE_CHECKING:
    from mcp_bench.trainer.data import Prepared
    from mcp_bench.trainer.sft.run_folder import RunFolder
    from mcp_bench.trainer.sft.train import Outcome, Ready

REPORT_TO = click.option(
    "--report-to",
    multiple=True,
    type=click.Choice(["wandb", "tensorboard", "trackio"]),
    help="Also log to this service (repeatable). Its package must be installed.",
)
OPTIONS = (
    click.option(
        "--tokenizer", metavar="NAME", help="Folder or Hub name of the tokenizer. Default: the base model's."
    ),
    click.option(
        "--set",
        "overrides",
        multiple=True,
        metavar="KEY=VALUE",
        help="Override a value of the recipe, such as training.epochs=3 (repeatable).",
    ),
    click.option(
        "--out",
        metavar="FOLDER",
        type=click.Path(path_type=Path, file_okay=False),
        help="Folder for the run. Default: a new one in $MCP_BENCH_HOME/training.",
    ),
    click.option(
        "--resume",
        metavar="FOLDER",
        type=click.Path(path_type=Path, file_okay=False),
        help="Resume a run from its last complete checkpoint, with its stored recipe and data.",
    ),
    REPORT_TO,
    click.option("--json", "as_json", is_flag=True, help="Print one JSON document."),
)


def run_options(data: str) -> Callable[[Any], Any]:
    """Return a decorator that adds the argument RECIPE and the options.

    Args:
        data: the help of `--data`.
    """
    rows = click.option("--data", multiple=True, metavar="FILE", type=click.Path(path_type=Path), help=data)
    return with_options(recipe_and_options, rows)


def recipe_and_options(command: Any) -> Any:
    """Add the argument RECIPE, and the options besides `--data`."""
    return with_options(click.argument("recipe", required=False), *OPTIONS)(command)


def run(
    ctx: click.Context,
    method: Method,
    *,
    recipe: str | None,
    data: tuple[Path, ...],
    tokenizer: str | None,
    overrides: tuple[str, ...],
    out: Path | None,
    resume: Path | None,
    report_to: tuple[str, ...],
    as_json: bool,
    eval_data: tuple[Path, ...] = (),
) -> None:
    """Train a new run or resume one, and exit: with 0 when it is complete, with 1 when it was stopped."""
    if resume is not None:
        own = set(ctx.params) - {"resume", "report_to", "as_json"}
        refuse_given(ctx, own, "--resume keeps the run's own settings")
    from mcp_bench.trainer.allocator import advice
    from mcp_bench.trainer.cpu_threads import limit_spinning

    limit_spinning()
    from mcp_bench.servers.errors import WrongUseError
    from mcp_bench.trainer.preference.train import make_ready as make_pairs
    from mcp_bench.trainer.preference.train import train_on_pairs
    from mcp_bench.trainer.rl.trackers import check_installed
    from mcp_bench.trainer.sft import processes
    from mcp_bench.trainer.sft.run_folder import RunFolder
    from mcp_bench.trainer.sft.start import again, begin
    from mcp_bench.trainer.sft.train import make_ready, train

    check_installed(report_to)
    make = make_ready if method == "sft" else partial(make_pairs, method=method)
    if resume is not None:
        folder = RunFolder(resume)
        resumed = again(folder, method, make)
        if resumed is None:
            if processes.rank() == 0:
                _print_done(folder, as_json)
            return
        ready = resumed
    else:
        if recipe is None:
            raise WrongUseError("name a recipe (see `mcp-bench train recipes`), or use --resume")
        folder, ready = begin(recipe, data, tokenizer, overrides, out, method, make, eval_data)
    if processes.rank() == 0:
        _announce(folder, ready, "rows" if method == "sft" else "pairs")
        if (text := advice(ready.recipe)) is not None:
            click.echo(text, err=True)
    if method == "sft":
        outcome = train(folder, ready, report_to)
    else:
        outcome = train_on_pairs(method, folder, ready, report_to)
    if processes.rank() == 0:
        _conclude(method, folder, outcome, as_json)
    raise SystemExit(1 if outcome.stopped else 0)


def _conclude(method: Method, folder: RunFolder, outcome: Outcome, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(_document(folder, outcome.step, outcome.steps, outcome.loss)))
    if outcome.stopped:
        click.echo(
            f"Stopped after step {outcome.step} of {outcome.steps}. Resume with: mcp-bench train {method} "
            f"--resume {quote(str(folder.path))}",
            err=True,
        )
        return
    click.echo(f"Done: {folder.model} (loss {outcome.loss:.4f} after {outcome.steps} steps)", err=True)


def _print_done(folder: RunFolder, as_json: bool) -> None:
    click.echo(f"{folder.path} is already complete: {folder.model}", err=True)
    if as_json:
        *_, last = folder.read_metrics()
        click.echo(json.dumps(_document(folder, last["step"], last["step"], last["loss"])))


def _announce(folder: RunFolder, ready: Ready, noun: str) -> None:
    from mcp_bench.servers.terminal.sanitize import sanitize

    prepared = ready.prepared
    share = prepared.trained_tokens / prepared.tokens
    counts = f"{len(prepared.examples)} {noun}, {prepared.tokens:,} tokens ({share:.0%} trained on)"
    click.echo(sanitize(f"{counts}{_lost(prepared)}. Run: {folder.path}"), err=True)
    if ready.held_out is not None:
        click.echo(f"{len(ready.held_out.examples)} held-out rows{_lost(ready.held_out)}", err=True)


def _lost(prepared: Prepared) -> str:
    """Return how many rows were dropped and why, after a semicolon; nothing if none was."""
    dropped = len(prepared.too_long), len(prepared.untrainable), len(prepared.unshown)
    lost = f"; dropped: {dropped[0]} too long, {dropped[1]} without trainable tokens" if any(dropped) else ""
    return lost + (f", {dropped[2]} with calls that the chat template leaves out" if dropped[2] else "")


def _document(folder: RunFolder, step: int, steps: int, loss: float) -> dict[str, object]:
    model = str(folder.model) if step >= steps else None
    scores = list(folder.read_evaluations())
    more = {"held_out": scores[-1]} if scores else {}
    return {"run": str(folder.path), "model": model, "step": step, "steps": steps, "loss": loss, **more}
