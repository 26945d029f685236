"""`mcp-bench leakage`: does a data set hold what is tested on?"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

SHOWN = 20
"""Rows that are named on a terminal; --json has all."""

EPILOG = """\b
Examples:
  mcp-bench leakage train.jsonl --against test
  mcp-bench leakage data/ --against test --against dev --json
  mcp-bench leakage chats.parquet --against test --benchmark agentdojo
"""


@click.command(epilog=EPILOG)
@click.argument("data", nargs=-1, required=True, metavar="DATA...", type=click.Path(path_type=Path))
@click.option(
    "--against",
    "splits",
    multiple=True,
    required=True,
    metavar="SPLIT",
    help="Split that must not be in the data (repeatable).",
)
@click.option(
    "--benchmark",
    "benchmarks",
    multiple=True,
    metavar="BENCHMARK",
    help="Compare every row with this benchmark, too, whatever it names (repeatable).",
)
@click.option(
    "--similarity",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.8,
    show_default=True,
    help="From which on two prompts or solutions are near duplicates.",
)
@click.option("--format", "form", metavar="FORMAT", help="Format of the data. Default: told from the files.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def leakage(
    data: tuple[Path, ...],
    splits: tuple[str, ...],
    benchmarks: tuple[str, ...],
    similarity: float,
    form: str | None,
    as_json: bool,
) -> None:
    """Look for held-out tasks in a data set.

    DATA are files, or folders of them, of any format and container that `mcp-bench import` reads, preference
    pairs and step data included. Each row is compared with the split of the benchmark that it names: the
    same task, the same prompt, one that shares most of its runs of five words, one that is quoted, or calls
    and an answer that are those of the task's reference solution.

    Ends with 0 where nothing leaks, with 1 where something does or a row cannot be read.
    """
    from mcp_bench.recorder.leakage.check import LeakCheck
    from mcp_bench.recorder.leakage.data_set import search
    from mcp_bench.servers.errors import WrongUseError
    from mcp_bench.servers.sanitize import sanitize_line

    check = LeakCheck(splits, threshold=similarity, benchmarks=benchmarks)
    found = search(data, form, check)
    if found.rows and not check.compared and not found.leaks:
        why = "; ".join(check.unchecked.values()) or "no row names one"
        raise WrongUseError(
            f"nothing could be compared: no benchmark of the rows is here ({why}). Name one with --benchmark"
        )
    if as_json:
        document = {
            "rows": found.rows,
            "against": list(splits),
            "benchmarks": check.compared,
            "unchecked": check.unchecked,
            "leaks": [leak.document() for leak in found.leaks],
            "unreadable": [
                {"file": file, "row": where, "reason": why} for file, where, why in found.unreadable
            ],
        }
        click.echo(json.dumps(document))
    else:
        for one in found.leaks[:SHOWN]:
            click.echo(sanitize_line(f"{one.file}, {one.where}: {one.row.task}: {one.leak.words()}"))
        if (more := len(found.leaks) - SHOWN) > 0:
            click.echo(f"and {more} more (--json)")
        compared = f" of {', '.join(check.compared)}" if check.compared else ""
        click.echo(
            sanitize_line(f"{len(found.leaks)} of {found.rows} rows leak into {', '.join(splits)}{compared}")
        )
    for file, where, why in found.unreadable:
        click.echo(sanitize_line(f"Not read: {file}, {where or 'all of it'}: {why}"), err=True)
    for name, why in check.unchecked.items():
        click.echo(sanitize_line(f"Not compared: rows of {name}: {why}"), err=True)
    sys.exit(1 if found.leaks or found.unreadable else 0)
