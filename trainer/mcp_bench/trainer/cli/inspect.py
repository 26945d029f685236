"""`mcp-bench train inspect`: what training did to a model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

import click

from mcp_bench.trainer.cli.engine_option import engine_option

EPILOG = """\b
Examples:
  mcp-bench train inspect loop/turn-1/train/model --base smollm2-135m
  mcp-bench train inspect tuned/model --base base --data held-out.jsonl --html change.html
  mcp-bench train inspect tuned/model --base base --data held-out.jsonl --data other.jsonl --rows 100 --json
  mcp-bench train inspect tuned/model --base base --dev 100 --trained train.jsonl --out inspection
"""


@click.command(epilog=EPILOG)
@click.argument("model")
@click.option("--base", required=True, metavar="MODEL", help="Before training: a folder, or a fetched base.")
@click.option(
    "--data",
    multiple=True,
    metavar="FILE",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Conversations from `mcp-bench export` that it was not trained on (repeatable).",
)
@click.option(
    "--rows",
    type=click.IntRange(1),
    default=50,
    show_default=True,
    metavar="N",
    help="Most conversations of each file.",
)
@click.option(
    "--max-length",
    type=click.IntRange(1),
    default=4096,
    show_default=True,
    metavar="N",
    help="Leave out conversations with more tokens.",
)
@click.option("--device", default="auto", show_default=True, help="cpu, cuda, or auto.")
@click.option(
    "--dev", metavar="N|FILE", help="Measure both on dev tasks, too: the first N, or the ids in a file."
)
@click.option(
    "--benchmark", default="saasworld", show_default=True, metavar="B", help="Benchmark of these tasks."
)
@click.option(
    "--trained",
    metavar="FILE",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="The rows that it was trained on: scores are divided into their families and others.",
)
@click.option("--jobs", type=click.IntRange(1), default=4, show_default=True, help="Parallel episodes.")
@click.option("--max-tokens", type=click.IntRange(1), metavar="N", help="Most tokens of an answer.")
@engine_option()
@click.option(
    "--out",
    metavar="FOLDER",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of the recordings of --dev. The same command continues one that was stopped.",
)
@click.option(
    "--html",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Also write the results as a page with charts.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def inspect(
    model: str,
    base: str,
    data: tuple[Path, ...],
    rows: int,
    max_length: int,
    device: str,
    dev: str | None,
    benchmark: str,
    trained: Path | None,
    jobs: int,
    max_tokens: int | None,
    engine: Literal["auto", "vllm", "torch"],
    out: Path | None,
    html: Path | None,
    as_json: bool,
) -> None:
    """Show what training changed in MODEL: its weights, its predictions, and what it forgot.

    Each weight matrix: the size of its change, and how many directions the change has. With --data, on the
    same conversations for both models: activations and predictions of each layer, KL divergence, entropy,
    and perplexity. With --dev: the scores of both on tasks, by family.

    MODEL is a folder with a model or a LoRA adapter.
    """
    from dataclasses import asdict

    from mcp_bench.recorder.html_report.page import check, write_page
    from mcp_bench.servers.errors import WrongUseError
    from mcp_bench.trainer.cpu_threads import limit_spinning

    if dev is not None and out is None:
        raise WrongUseError("--dev records both models: name a folder for it with --out")
    if html is not None:
        check(html)
    limit_spinning()
    from mcp_bench.trainer.inspection.inspect import inspect as compare
    from mcp_bench.trainer.inspection.page import sections, summary
    from mcp_bench.trainer.rows import read_rows
    from mcp_bench.trainer.trial.settings import TrialSettings
    from mcp_bench.trainer.trial.tasks import stored_name, task_ids

    settings = None
    if dev is not None:
        settings = TrialSettings(
            recipe="",
            benchmark=stored_name(benchmark),
            dev=task_ids(benchmark, "dev", dev),
            jobs=jobs,
            max_tokens=max_tokens,
            engine=engine,
        )
    found = compare(
        model,
        base,
        data=data,
        rows=rows,
        max_length=max_length,
        device=device,
        dev=settings,
        out=out,
        trained=[row.task for row in read_rows([trained])] if trained else (),
        report=lambda line: click.echo(line, err=True),
    )
    if html is not None:
        write_page(
            html, "What training changed", [f"Model: {found.model}", f"Base: {found.base}"], sections(found)
        )
        click.echo(f"Written: {html}", err=True)
    if as_json:
        click.echo(json.dumps(asdict(found)))
        return
    for line in summary(found):
        click.echo(line)
