"""`mcp-bench import`: import trajectories of other tools as recordings."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click


@click.command("import")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=click.Path(path_type=Path))
@click.option(
    "--format", "form", metavar="FORMAT", help="Format of the files. Default: detected from the first file."
)
@click.option("--benchmark", metavar="BENCHMARK", help="Benchmark of the episodes. Default: as in the rows.")
@click.option("--agent", metavar="AGENT", help="Agent of the episodes. Default: as in the rows.")
@click.option(
    "--split", metavar="SPLIT", help="Split of the episodes. Default: as in the rows, otherwise `imported`."
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
    """Import trajectories of other tools, with their grades.

    PATH is a file, or a folder of files, in one of these formats: atif (Harbor), automationbench
    (--export-json), claude-code and codex (session files), evalscope, inspect (.eval, .json), openai,
    prime-rl, sharegpt, trl, verifiers (results.jsonl, traces.jsonl).

    Invalid rows are left out and listed with the reason; the exit code is then 1. Importing the same rows
    twice adds nothing. Reports and exports include imported episodes, but they never count as verified.

    \b
    Examples:
      mcp-bench import outputs/evals --format verifiers
      mcp-bench import logs/2026-11-21_adding.eval
      mcp-bench import chats.jsonl --benchmark helpdesk --agent helper --split train
      mcp-bench import ~/.codex/sessions --format codex
    """
    from mcp_bench.recorder.importers.run import Defaults, import_paths
    from mcp_bench.servers.terminal.sanitize import sanitize_line

    outcome = import_paths(paths, form, Defaults(benchmark=benchmark, agent=agent, split=split))
    for bad in outcome.bad:
        where = f"{bad.file}, {bad.where}" if bad.where else bad.file
        click.echo(sanitize_line(f"left out: {where}: {bad.reason}"), err=True)
    if as_json:
        click.echo(json.dumps(outcome.document()))
    else:
        known = f", {outcome.known} were already imported" if outcome.known else ""
        runs = f" ({', '.join(outcome.runs)})" if outcome.runs else ""
        click.echo(f"imported {outcome.imported} episodes as {outcome.format}{runs}{known}")
    if outcome.bad:
        sys.exit(1)
