"""`mcp-bench train sft`: fine-tune a model on exported rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from mcp_bench.trainer.data import Prepared
    from mcp_bench.trainer.sft.run_folder import RunFolder
    from mcp_bench.trainer.sft.train import Outcome

EPILOG = """\b
Examples:
  mcp-bench export --min-partial 0.5 --out train.jsonl
  mcp-bench train sft qwen3.5-9b-lora-1gpu --data train.jsonl
  mcp-bench train sft tiny-cpu --data train.jsonl --tokenizer ./my-tokenizer --out tuned
  mcp-bench train sft my.yaml --data train.jsonl --set training.epochs=3 --report-to tensorboard
  mcp-bench train sft --resume tuned
"""


@click.command(epilog=EPILOG)
@click.argument("recipe", required=False)
@click.option(
    "--data",
    multiple=True,
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Training rows from `mcp-bench export --format trl` (repeatable).",
)
@click.option(
    "--tokenizer", metavar="NAME", help="Folder or Hub name of the tokenizer. Default: the base model's."
)
@click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="Override a value of the recipe, such as training.epochs=3 (repeatable).",
)
@click.option(
    "--out",
    metavar="FOLDER",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the run. Default: a new one in $MCP_BENCH_HOME/training.",
)
@click.option(
    "--resume",
    metavar="FOLDER",
    type=click.Path(path_type=Path, file_okay=False),
    help="Resume a run from its last complete checkpoint, with its stored recipe and data.",
)
@click.option(
    "--report-to",
    multiple=True,
    type=click.Choice(["wandb", "tensorboard", "trackio"]),
    help="Also log to this service (repeatable). Its package must be installed.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def sft(
    recipe: str | None,
    data: tuple[Path, ...],
    tokenizer: str | None,
    overrides: tuple[str, ...],
    out: Path | None,
    resume: Path | None,
    report_to: tuple[str, ...],
    as_json: bool,
) -> None:
    """Fine-tune a model on exported rows. The loss covers only the assistant's tokens.

    RECIPE is the name of a built-in recipe (see `mcp-bench train recipes`) or the path of a YAML file. Rows,
    lengths and chat template are checked before the model is loaded, as in `mcp-bench train plan`.

    Each run has a folder. `model/` holds the result, ready to serve; `metrics.jsonl` has a line per step.
    Ctrl-C finishes the current step and saves a checkpoint. --resume continues a stopped or killed run.

    Exits with 0 when the run is complete, with 1 when it was stopped or failed.
    """
    from mcp_bench.trainer.cpu_threads import limit_spinning

    limit_spinning()
    from mcp_bench.servers.errors import WrongUseError
    from mcp_bench.trainer.sft import processes
    from mcp_bench.trainer.sft.run_folder import RunFolder
    from mcp_bench.trainer.sft.start import again, begin
    from mcp_bench.trainer.sft.train import train

    if resume is not None:
        folder = RunFolder(resume)
        _only_resume(recipe, data, tokenizer, overrides, out)
        resumed = again(folder)
        if resumed is None:
            if processes.rank() == 0:
                _print_done(folder, as_json)
            return
        ready = resumed
    else:
        if recipe is None:
            raise WrongUseError("name a recipe (see `mcp-bench train recipes`), or use --resume")
        folder, ready = begin(recipe, data, tokenizer, overrides, out)
    if processes.rank() == 0:
        _announce(folder, ready.prepared)
    outcome = train(folder, ready, report_to)
    if processes.rank() == 0:
        _conclude(folder, outcome, as_json)
    raise SystemExit(1 if outcome.stopped else 0)


def _conclude(folder: RunFolder, outcome: Outcome, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(_document(folder, outcome.step, outcome.steps, outcome.loss)))
    if outcome.stopped:
        click.echo(
            f"Stopped after step {outcome.step} of {outcome.steps}. Resume with: mcp-bench train sft "
            f"--resume {folder.path}",
            err=True,
        )
        return
    click.echo(f"Done: {folder.model} (loss {outcome.loss:.4f} after {outcome.steps} steps)", err=True)


def _print_done(folder: RunFolder, as_json: bool) -> None:
    click.echo(f"{folder.path} is already complete: {folder.model}", err=True)
    if as_json:
        *_, last = folder.read_metrics()
        click.echo(json.dumps(_document(folder, last["step"], last["step"], last["loss"])))


def _only_resume(recipe: str | None, *others: object) -> None:
    from mcp_bench.servers.errors import WrongUseError

    if recipe is not None or any(others):
        raise WrongUseError(
            "--resume takes recipe, data and folder from the run: leave out RECIPE and the other options"
        )


def _announce(folder: RunFolder, prepared: Prepared) -> None:
    from mcp_bench.servers.sanitize import sanitize

    dropped = len(prepared.too_long), len(prepared.untrainable)
    lost = f"; dropped: {dropped[0]} too long, {dropped[1]} without trainable tokens" if any(dropped) else ""
    share = prepared.trained_tokens / prepared.tokens
    click.echo(
        sanitize(
            f"{len(prepared.examples)} rows, {prepared.tokens:,} tokens ({share:.0%} trained on){lost}. "
            f"Run: {folder.path}"
        ),
        err=True,
    )


def _document(folder: RunFolder, step: int, steps: int, loss: float) -> dict[str, object]:
    model = str(folder.model) if step >= steps else None
    return {"run": str(folder.path), "model": model, "step": step, "steps": steps, "loss": loss}
