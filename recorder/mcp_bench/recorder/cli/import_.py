"""`mcp-bench import`: other tools' trajectories become recordings."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click


@click.command("import")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=click.Path(path_type=Path))
@click.option("--format", "form", metavar="FORMAT", help="What they are. Default: told from the first file.")
@click.option("--benchmark", metavar="BENCHMARK", help="Benchmark to file them under.")
@click.option("--agent", metavar="AGENT", help="Agent to file them under.")
@click.option(
    "--split", metavar="SPLIT", help="Split to file them under. Default: the row's, else `imported`."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def import_(
    paths: tuple[Path, ...],
    form: str | None,
    benchmark: str | None,
    agent: str | None,
    split: str | None,
    as_json: bool,
) -> None:
    """Take in trajectories of other tools, graded as they graded them.

    PATH is a file, or a folder with files of the format: atif (Harbor), automationbench (--export-json),
    claude-code and codex (session files), evalscope, inspect (.eval), openai, prime-rl, sharegpt, trl,
    verifiers (results.jsonl, traces.jsonl).

    Rows that make no sense are named with their reason and left out; the exit code is then 1. Importing
    twice adds nothing. Imported episodes are in reports and exports like recorded ones, but never count
    as verified.

    \b
    Examples:
      mcp-bench import outputs/evals --format verifiers
      mcp-bench import logs/2026-11-21_adding.eval
      mcp-bench import chats.jsonl --benchmark helpdesk --agent helper --split train
      mcp-bench import ~/.codex/sessions --format codex
    """
    from mcp_bench.recorder.importers.run import Defaults, import_paths
    from mcp_bench.servers.sanitize import sanitize_line

    outcome = import_paths(paths, form, Defaults(benchmark=benchmark, agent=agent, split=split))
    for bad in outcome.bad:
        where = f"{bad.file}, {bad.where}" if bad.where else bad.file
        click.echo(sanitize_line(f"left out: {where}: {bad.reason}"), err=True)
    if as_json:
        click.echo(json.dumps(outcome.document()))
    else:
        known = f", {outcome.known} were here already" if outcome.known else ""
        runs = f" ({', '.join(outcome.runs)})" if outcome.runs else ""
        click.echo(f"imported {outcome.imported} episodes as {outcome.format}{runs}{known}")
    if outcome.bad:
        sys.exit(1)
