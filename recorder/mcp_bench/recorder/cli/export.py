"""`mcp-bench export`: recordings become training data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from mcp_bench.recorder.curation.pipeline import Curation


@click.command()
@click.option(
    "--min-partial",
    type=click.FloatRange(0, 1),
    help="Least share of a task's assertions that must hold. Default: 0.5, with --cohort 0.",
)
@click.option("--strict", is_flag=True, help="Keep only what the benchmark itself calls solved.")
@click.option(
    "--split",
    "splits",
    multiple=True,
    metavar="SPLIT",
    help="Split to take (repeatable; `all` takes every one). Default: train.",
)
@click.option("--run", "runs", multiple=True, metavar="RUN", help="Run to take (repeatable; default: all).")
@click.option("--agent", "agents", multiple=True, metavar="AGENT", help="Agent to take (repeatable).")
@click.option("--model", "models", multiple=True, metavar="MODEL", help="Model to take (repeatable).")
@click.option(
    "--benchmark", "benchmarks", multiple=True, metavar="BENCHMARK", help="Benchmark to take (repeatable)."
)
@click.option("--domain", "domains", multiple=True, metavar="DOMAIN", help="Domain to take (repeatable).")
@click.option(
    "--require-isolation",
    "isolation",
    metavar="LEVEL",
    help="Keep only what was recorded at this level of isolation or a stronger one:"
    " none, landlock, bwrap, uid.",
)
@click.option(
    "--include-tainted",
    is_flag=True,
    help="Take episodes, too, whose agents looked for their grades; they are left out otherwise.",
)
@click.option("--clean", is_flag=True, help="Keep only what was scanned, and shows no attempt at that.")
@click.option(
    "--verified",
    is_flag=True,
    help="Keep only clean episodes whose agent was isolated by a level that passed every probe.",
)
@click.option(
    "--max-error-share",
    type=click.FloatRange(0, 1),
    metavar="SHARE",
    help="Drop an episode in which more than this share of the calls failed.",
)
@click.option(
    "--dedupe",
    metavar="exact|near",
    help="Keep the best of those with the same conversation, or with much the same calls and answer.",
)
@click.option(
    "--similarity",
    type=float,
    default=0.8,
    show_default=True,
    help="From which on two episodes are near duplicates.",
)
@click.option(
    "--tokenizer",
    type=click.Path(path_type=Path),
    help="tokenizer.json, or a model's folder that has one, for --max-tokens.",
)
@click.option("--max-tokens", type=int, metavar="N", help="Drop longer episodes; none is ever cut.")
@click.option("--best", type=int, metavar="K", help="Keep the K best attempts at each task.")
@click.option(
    "--max-per-task", type=int, metavar="N", help="Keep at most N attempts at a task, drawn by lot."
)
@click.option(
    "--max-per-family",
    type=int,
    metavar="N",
    help="Keep at most N episodes of a family of tasks, drawn by lot.",
)
@click.option(
    "--cohort",
    metavar="high|low|random",
    help="Of each task, keep the best, the worst or any attempts; the three cohorts of one --size have"
    " the same tasks.",
)
@click.option("--size", type=int, metavar="N", help="Rows of the cohort.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of what is drawn by lot.")
@click.option(
    "--reasoning",
    default="keep",
    show_default=True,
    metavar="keep|drop",
    help="What becomes of the agents' reasoning.",
)
@click.option(
    "--redact",
    multiple=True,
    metavar="secrets|emails",
    help="Put placeholders for keys, tokens and passwords, or for e-mail addresses (repeatable).",
)
@click.option(
    "--on-leak",
    default="refuse",
    show_default=True,
    metavar="refuse|drop|allow",
    help="What to do where a row is, or is much like, a task of a held-out split: write nothing, leave it"
    " out, or write it all the same; what leaks into `private` is never written unless --split names it.",
)
@click.option("--format", "form", default="trl", show_default=True, metavar="FORMAT", help="Export format.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help="File to write: Parquet where it ends in .parquet, else JSON lines.",
)
@click.option(
    "--shard-size",
    type=int,
    metavar="N",
    help="Write files of N rows each: OUT's name with -00000-of-00012 before its ending.",
)
@click.option(
    "--compress",
    metavar="gzip|zstd",
    help="Compress the data; JSON lines get the ending .gz or .zst, which asks for it, too.",
)
@click.option("--force", is_flag=True, help="Overwrite the file.")
@click.option("--json", "as_json", is_flag=True, help="Print the manifest as one JSON document.")
def export(
    min_partial: float | None,
    form: str,
    out: Path,
    shard_size: int | None,
    compress: str | None,
    force: bool,
    as_json: bool,
    **asked: Any,
) -> None:
    """Write graded recordings as training data.

    Only the last attempt of each planned episode is looked at. The rules are applied in the order of the
    options above; the funnel that is printed says how many episodes each one dropped. A manifest
    OUT.manifest.json has it, too, with every option, the ids of the episodes and a hash of each file. The
    same command on the same recordings writes the same bytes. FORMAT is one of trl, openai, prime-rl,
    verifiers, atif and sharegpt, or one that another package registered.

    \b
    Examples:
      mcp-bench export --min-partial 0.5 --out train.jsonl
      mcp-bench export --strict --agent codex --agent claude-code --best 1 --out solved.jsonl
      mcp-bench export --dedupe near --max-per-family 200 --redact secrets --out varied.jsonl
      mcp-bench export --cohort high --size 500 --out high.jsonl
      mcp-bench export --split all --run run_01kbf3x9qv2m8t0 --out everything.jsonl
      mcp-bench export --format sharegpt --shard-size 10000 --compress zstd --out data/train.jsonl
      mcp-bench export --format openai --out train.parquet
    """
    from mcp_bench.recorder.curation.pipeline import Curation
    from mcp_bench.recorder.curation.selection import Selection
    from mcp_bench.recorder.export import export as write
    from mcp_bench.servers.printable import in_line
    from mcp_bench.servers.registry import load

    if min_partial is None:
        min_partial = 0.0 if asked["cohort"] else 0.5
    asked["splits"] = asked["splits"] or ("train",)
    curation = Curation(Selection(min_partial=min_partial, **asked))
    manifest = write(
        load("format", form)(), out, curation, compress=compress, shard_size=shard_size, force=force
    )
    click.echo(_funnel(curation), err=True)
    for name, why in curation.guard.unchecked.items():
        click.echo(in_line(f"not compared with held-out tasks: rows of {name}: {why}"), err=True)
    data = out.with_name(manifest["data"])
    if as_json:
        click.echo(json.dumps({"out": str(data), **manifest}))
    else:
        parts = f", in {len(manifest['files'])} files" if shard_size is not None else ""
        kind = f"{manifest['format']}{parts}"
        click.echo(f"wrote {curation.rows_out} of {curation.rows_in} episodes to {data} ({kind})")


def _funnel(curation: Curation) -> str:
    words = curation.words()
    lines = [(str(curation.rows_in), "episodes")]
    lines += [(str(-count), words[rule]) for rule, count in curation.dropped.items()]
    lines.append((str(curation.rows_out), "rows"))
    width = max(len(count) for count, _ in lines)
    return "\n".join(f"{count:>{width}} {text}" for count, text in lines)
