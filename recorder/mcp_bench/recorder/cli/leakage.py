"""`mcp-bench leakage`: search a data set for held-out tasks."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from mcp_bench.recorder.cli.options import finite

SHOWN = 20
"""Rows listed on a terminal. --json has all."""

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
    help="Split that the data must not contain (repeatable).",
)
@click.option(
    "--benchmark",
    "benchmarks",
    multiple=True,
    metavar="BENCHMARK",
    help="Also compare every row with this benchmark, whichever one the row names (repeatable).",
)
@click.option(
    "--similarity",
    type=click.FloatRange(0, 1, min_open=True),
    callback=finite,
    default=0.8,
    show_default=True,
    help="Similarity from which two prompts or solutions are near duplicates.",
)
@click.option(
    "--format", "form", metavar="FORMAT", help="Format of the data. Default: detected from the files."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def leakage(
    data: tuple[Path, ...],
    splits: tuple[str, ...],
    benchmarks: tuple[str, ...],
    similarity: float,
    form: str | None,
    as_json: bool,
) -> None:
    """Search a data set for held-out tasks.

    DATA is a file or folder in any format that `mcp-bench import` reads, or of preference pairs or step
    data. Each row is compared with the split of the benchmark that it names. A row leaks if it has the same
    task, the same or a similar prompt, quotes a prompt, or has calls and an answer similar to a reference
    solution. Similar texts share most of their runs of five words.

    The exit code is 0 if nothing leaks, and 1 if a row leaks or cannot be read.
    """
    from mcp_bench.recorder.leakage.check import LeakCheck
    from mcp_bench.recorder.leakage.data_set import search
    from mcp_bench.servers.errors import WrongUseError
    from mcp_bench.servers.terminal.sanitize import sanitize_line

    check = LeakCheck(splits, threshold=similarity, benchmarks=benchmarks)
    found = search(data, form, check)
    for file, where, reason in found.unreadable:
        click.echo(sanitize_line(f"Not read: {file}, {where or 'whole file'}: {reason}"), err=True)
    check.require_splits()
    if found.rows and not check.compared and not found.leaks:
        if sum(bool(where) for _, where, _ in found.unreadable) == found.rows:
            raise WrongUseError("nothing could be compared: no row could be read")
        reason = "; ".join(check.unchecked.values()) or "no row names a benchmark"
        raise WrongUseError(
            f"nothing could be compared: no benchmark of the rows is installed ({reason})."
            " Name one with --benchmark"
        )
    if as_json:
        document = {
            "rows": found.rows,
            "against": list(splits),
            "benchmarks": check.compared,
            "unchecked": check.unchecked,
            "leaks": [leak.document() for leak in found.leaks],
            "unreadable": [
                {"file": file, "row": where, "reason": reason} for file, where, reason in found.unreadable
            ],
        }
        click.echo(json.dumps(document))
    else:
        for one in found.leaks[:SHOWN]:
            click.echo(sanitize_line(f"{one.file}, {one.where}: {one.row.task}: {one.leak.words()}"))
        if (more := len(found.leaks) - SHOWN) > 0:
            click.echo(f"and {more} more (--json)")
        rows = len({(one.file, one.where) for one in found.leaks})  # a row can be a pair of attempts
        compared = f" of {', '.join(check.compared)}" if check.compared else ""
        click.echo(sanitize_line(f"{rows} of {found.rows} rows leak into {', '.join(splits)}{compared}"))
    for name, reason in check.unchecked.items():
        click.echo(sanitize_line(f"Not compared: rows of {name}: {reason}"), err=True)
    sys.exit(1 if found.leaks or found.unreadable else 0)
