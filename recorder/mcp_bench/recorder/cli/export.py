"""`mcp-bench export`: recordings become training data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from mcp_bench.recorder.export import Selection


@click.command()
@click.option(
    "--min-partial",
    type=click.FloatRange(0, 1),
    default=0.5,
    show_default=True,
    help="Least share of a task's assertions that must hold.",
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
@click.option("--benchmark", "benchmarks", multiple=True, metavar="BENCHMARK", help="Benchmark to take.")
@click.option("--format", "form", default="trl", show_default=True, metavar="FORMAT", help="Export format.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), required=True, help="File to write.")
@click.option("--force", is_flag=True, help="Overwrite the file.")
@click.option("--json", "as_json", is_flag=True, help="Print what was done as one JSON document.")
def export(
    min_partial: float,
    strict: bool,
    splits: tuple[str, ...],
    runs: tuple[str, ...],
    agents: tuple[str, ...],
    benchmarks: tuple[str, ...],
    form: str,
    out: Path,
    force: bool,
    as_json: bool,
) -> None:
    """Write graded recordings as training data.

    Only the last attempt of each planned episode is looked at. A manifest OUT.manifest.json says what was
    chosen, what was left out and why, and holds a hash of the data.

    \b
    Examples:
      mcp-bench export --min-partial 0.5 --out train.jsonl
      mcp-bench export --strict --agent codex --agent claude-code --out solved.jsonl
      mcp-bench export --split all --run run_01kbf3x9qv2m8t0 --out everything.jsonl
    """
    from mcp_bench.recorder.export import Selection
    from mcp_bench.recorder.export import export as write
    from mcp_bench.servers.registry import load

    selection = Selection(
        runs=runs,
        agents=agents,
        benchmarks=benchmarks,
        splits=splits or ("train",),
        min_partial=min_partial,
        strict=strict,
    )
    manifest = write(load("format", form)(), out, selection, force=force)
    if as_json:
        click.echo(json.dumps({"out": str(out), **manifest}))
    else:
        click.echo(_summary(out, manifest, selection))


def _summary(out: Path, manifest: dict[str, Any], selection: Selection) -> str:
    from mcp_bench.recorder.export import RULES

    counts = manifest["counts"]
    lines = [f"wrote {counts['exported']} of {counts['seen']} episodes to {out} ({manifest['format']})"]
    for rule, words in RULES.items():
        if counts[rule]:
            hint = f" than {', '.join(selection.splits)}: --split all takes every one"
            lines.append(f"  left out: {counts[rule]} {words}{hint if rule == 'other_split' else ''}")
    return "\n".join(lines)
