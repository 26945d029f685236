"""`mcp-bench report`: scores of what was recorded."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from mcp_bench.recorder.errors import StorageError
    from mcp_bench.recorder.reader import RunSummary


@click.command()
@click.option("--run", "runs", multiple=True, metavar="RUN", help="Run to report (repeatable; default: all).")
@click.option(
    "--by",
    default="agent,model,benchmark,split",
    show_default=True,
    metavar="FIELDS",
    help="What to group by, separated by commas: agent, model, benchmark, split, domain.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the rows as one JSON list.")
def report(runs: tuple[str, ...], by: str, as_json: bool) -> None:
    """Show scores and their confidence intervals.

    The 95 % intervals are a bootstrap over tasks. Invalid episodes are counted apart; `inv. as 0` gives the
    partial and strict scores with each of them as a failure.

    \b
    Examples:
      mcp-bench report
      mcp-bench report --by agent,domain
      mcp-bench report --run run_01kbf3x9qv2m8t0 --json
    """
    from mcp_bench.recorder.reader import run_paths
    from mcp_bench.recorder.report import groups, stored_episodes
    from mcp_bench.recorder.report import report as summarise

    names = groups(by)
    unfinished: list[RunSummary] = []
    unreadable: list[StorageError] = []
    rows = summarise(stored_episodes(run_paths(runs), unfinished, unreadable), names)
    for run in unfinished:
        click.echo(
            f"{run.id}: {run.planned - run.done} of {run.planned} planned episodes are not done yet"
            f" (mcp-bench record --resume {run.id})",
            err=True,
        )
    for problem in unreadable:
        click.echo(f"Left out: {problem}", err=True)
    if as_json:
        click.echo(json.dumps(rows))
    elif rows:
        _print_table(rows, names)
    elif not unreadable:
        click.echo("no recordings yet. Make some: mcp-bench record --agent oracle --limit 5")
    if unreadable:
        sys.exit(1)


def _print_table(rows: list[dict[str, Any]], names: list[str]) -> None:
    """Print a table; on a terminal that is too narrow for it, a few short lines for each row."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from mcp_bench.recorder.printable import printable

    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in names:
        table.add_column(name, overflow="fold")
    for name in ("episodes", "invalid", "partial", "strict", "inv. as 0", "calls"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("isolation")
    for row in rows:
        lowered = f"{_share(row['partial_invalid_as_0'])} / {_share(row['strict_invalid_as_0'])}"
        cells = [
            *(printable(str(row[name] or "-")) for name in names),
            str(row["episodes"]),
            str(row["invalid"]),
            _score(row["partial"], row["partial_ci"]),
            _score(row["strict"], row["strict_ci"]),
            lowered if row["invalid"] else "",
            str(row["tool_calls"]),
            printable(str(row["isolation"])),
        ]
        table.add_row(*(Text(cell) for cell in cells))
    console = Console()
    needed = Console(width=10_000).measure(table).maximum
    if console.is_terminal and needed > console.width:
        _print_stacked(rows, names)
    else:  # a file or a pipe has no width: nothing is cut there
        Console(width=needed).print(table)


def _print_stacked(rows: list[dict[str, Any]], names: list[str]) -> None:
    from mcp_bench.recorder.printable import printable

    for row in rows:
        heading = "  ".join(printable(str(row[name] or "-")) for name in names) or "all"
        click.secho(heading, bold=True)
        for score in ("partial", "strict"):
            lowered = (
                f"  ({_share(row[f'{score}_invalid_as_0'])} with invalid as 0)" if row["invalid"] else ""
            )
            click.echo(f"  {score:<8}{_score(row[score], row[f'{score}_ci'])}{lowered}")
        counts = f"{row['episodes']} episodes, {row['invalid']} invalid, {row['tool_calls']} calls"
        click.echo(f"  {counts}, isolation {printable(str(row['isolation']))}")


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _score(value: float | None, interval: list[float] | None) -> str:
    return _share(value) + (f" [{interval[0]:.3f}, {interval[1]:.3f}]" if interval else "")
