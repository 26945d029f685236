"""Print the result of an ablation."""

from __future__ import annotations

from typing import Any

import click
from rich.table import Table
from rich.text import Text

from mcp_bench.recorder.cli.score_table import print_wide, score, share
from mcp_bench.servers.terminal.sanitize import sanitize_line

COLUMNS = ("rows", "tasks", "episodes", "invalid", "partial", "strict", "partial of each seed")


def print_result(result: dict[str, Any]) -> None:
    """Print one row per cohort and the verdict."""
    rows = [(name, _cells(cohort)) for name, cohort in result["cohorts"].items()]
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("cohort", no_wrap=True)
    for name in COLUMNS:
        table.add_column(name, justify="right", no_wrap=True)
    for name, cells in rows:
        table.add_row(name, *(Text(cell) for cell in cells))

    def stacked() -> None:
        for name, cells in rows:
            click.secho(name, bold=True)
            for column, cell in zip(COLUMNS, cells, strict=True):
                click.echo(f"  {column:<21}{cell}")

    print_wide(table, stacked)
    click.echo(sanitize_line(f"Verdict: {result['verdict']}"))


def _cells(cohort: dict[str, Any]) -> list[str]:
    return [
        *(str(cohort[name]) for name in COLUMNS[:4]),
        score(cohort["partial"], cohort["partial_ci"]),
        score(cohort["strict"], cohort["strict_ci"]),
        ", ".join(share(seed["partial"]) for seed in cohort["seeds"]),
    ]
