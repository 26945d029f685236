"""The commands `mcp-bench benchmarks` and `mcp-bench tasks`."""

from __future__ import annotations

import json
from typing import Any

import click

BENCHMARKS_EPILOG = """\b
Examples:
  mcp-bench benchmarks
  mcp-bench benchmarks --json
"""

TASKS_EPILOG = """\b
Examples:
  mcp-bench tasks saasworld                        the default set
  mcp-bench tasks saasworld --split test --limit 5
  mcp-bench tasks saasworld --json                 with whole prompts
  mcp-bench tasks saasworld --split train --tag level-1 --ids > ids.txt
"""


SHOWN = 5
"""Tasks that a line about what they need names."""


@click.command(epilog=BENCHMARKS_EPILOG)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def benchmarks(as_json: bool) -> None:
    """List the benchmarks, and how to install what is missing."""
    from mcp_bench.servers.contracts import Benchmark
    from mcp_bench.servers.errors import BenchError
    from mcp_bench.servers.registry import load, registered

    rows: list[dict[str, Any]] = []
    for name in registered("benchmark"):
        try:
            found: Benchmark = load("benchmark", name)
        except BenchError as error:  # a benchmark that cannot be loaded must not hide the others
            rows.append({"name": name, "error": str(error)})
            continue
        row = {"name": name, "version": found.version, "summary": found.summary, "replay": found.replay}
        for extra in ("install", "licence"):
            if value := getattr(found, extra, ""):
                row[extra] = value
        if (missing := getattr(found, "missing", None)) and (reason := missing()):
            row["missing"] = reason
        rows.append(row)
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    show(
        ["benchmark", "version", "summary"],
        [[row["name"], row.get("version", "-"), row.get("summary") or row.get("error", "")] for row in rows],
    )
    for row in rows:
        if "missing" in row:
            advice = f". Install it with: {row['install']}" if "install" in row else ""
            note(f"{row['name']} cannot run here: {row['missing']}{advice}")


@click.command(epilog=TASKS_EPILOG)
@click.argument("benchmark")
@click.option("--split", metavar="NAME", help="Only this split (train, dev, test), or all.")
@click.option(
    "--tag", "tags", metavar="TAG", multiple=True, help="Only tasks with this tag (repeatable: with all)."
)
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="The first N tasks only.")
@click.option("--ids", is_flag=True, help="Print ids alone, one a line.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document, with whole prompts.")
def tasks(
    benchmark: str, split: str | None, tags: tuple[str, ...], limit: int | None, ids: bool, as_json: bool
) -> None:
    """List the tasks of BENCHMARK, and say which of them cannot run on this machine."""
    from mcp_bench.servers.contracts import Benchmark
    from mcp_bench.servers.needs import unmet
    from mcp_bench.servers.registry import load
    from mcp_bench.servers.tagged import tagged

    if ids and as_json:
        raise click.UsageError("--ids and --json are two ways to print: leave out one of them")
    source: Benchmark = load("benchmark", benchmark)
    found = list(tagged(source, split, tags, limit))
    if ids:
        for task in found:
            click.echo(task.id)
        return
    reasons = {task.needs: unmet(task.needs) for task in found}
    if as_json:
        listing = [
            task.model_dump(mode="json", exclude_none=True) | {"cannot_run": reasons[task.needs]}
            for task in found
        ]
        click.echo(json.dumps(listing, indent=2))
        return
    show(
        ["task", "split", "domain", "tags", "prompt"],
        [
            [task.id, task.split, task.domain, " ".join(task.tags), " ".join(task.prompt.split())]
            for task in found
        ],
    )
    blocked: dict[str, list[str]] = {}
    for task in found:
        if why := "; ".join(reasons[task.needs]):
            blocked.setdefault(why, []).append(task.id)
    for why, names in blocked.items():
        few = ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
        note(f"{len(names)} of {len(found)} tasks cannot run here, because {why}: {few}")


def note(text: str) -> None:
    """Print a line below a table."""
    from mcp_bench.servers.sanitize import sanitize_line

    click.echo(f"\n{sanitize_line(text)}")


def show(columns: list[str], rows: list[list[str]]) -> None:
    """Print a table. The last column is cut to fit the terminal, but not in a file or a pipe."""
    import shutil
    import sys

    from mcp_bench.servers.sanitize import sanitize_line

    table = [columns, *(list(map(sanitize_line, row)) for row in rows)]
    widths = [max(map(len, cells)) for cells in zip(*table, strict=True)][:-1]
    width = shutil.get_terminal_size(fallback=(sys.maxsize, 0)).columns
    left = max(width - sum(widths) - 2 * len(widths), 20)
    for row in table:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        text = row[-1] if len(row[-1]) <= left else row[-1][: left - 1] + "…"
        click.echo("  ".join([*cells, text]))
