"""Scores on a terminal: a table, or a few lines for each row if the terminal is too narrow."""

from __future__ import annotations

from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mcp_bench.recorder.scores.scores import (
    CONDITIONS,
    conditions,
    conditions_that_differ,
    usual_attempts,
)
from mcp_bench.servers.sanitize import sanitize_line


def print_scores(rows: list[dict[str, Any]], names: list[str]) -> None:
    """Print the rows of a report that is grouped by `names`; of the conditions, those that differ."""
    names = [name for name in names if name not in CONDITIONS]
    differ = [name for name in conditions_that_differ(rows) if name != "isolation"]  # it has a column
    known = any(row["public_tasks"] or row["private_tasks"] for row in rows)
    # a column appears only if a row has a value for it
    repeated = any(usual_attempts(row) for row in rows)
    troubled = any(_trouble(row) for row in rows)
    tokens = any(_tokens(row) for row in rows)
    cost = any(row["cost_usd"] is not None for row in rows)
    retried = any(row["earlier_attempts"] for row in rows)
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in [*names, *(["conditions"] if differ else [])]:
        table.add_column(name, overflow="fold")
    scores = ["partial", "strict", "inv. as 0", *(["1st try / retried"] if retried else [])]
    scores += ["pass@k / pass^k"] if repeated else []
    spent = [*(["tokens in / out"] if tokens else []), *(["cost"] if cost else [])]
    counts = ["episodes", *(["retried"] if retried else []), "invalid"]
    for name in (*counts, *scores, "calls", "failed", *spent):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("isolation")
    for name in ("verified", *(["public tasks"] if known else [])):
        table.add_column(name, justify="right", no_wrap=True)
    if troubled:
        table.add_column("errors")
    for row in rows:
        cells = [
            *_heading(row, names),
            *([sanitize_line(conditions(row, differ))] if differ else []),
            str(row["episodes"]),
            *([str(row["earlier_attempts"])] if retried else []),
            str(row["invalid"]),
            score(row["partial"], row["partial_ci"]),
            score(row["strict"], row["strict_ci"]),
            _lowered(row) if row["invalid"] else "",
            *([_tries(row)] if retried else []),
            *([_attempts(row)] if repeated else []),
            str(row["tool_calls"]),
            str(row["failed_calls"]),
            *([_tokens(row)] if tokens else []),
            *([_cost(row)] if cost else []),
            sanitize_line(str(row["isolation"])),
            _verified(row),
            *([_public(row)] if known else []),
            *([_trouble(row)] if troubled else []),
        ]
        table.add_row(*(Text(cell) for cell in cells))
    print_wide(table, lambda: _print_stacked(rows, names, differ))


def print_wide(table: Table, otherwise: Any) -> None:
    """Print a table at full width, or call `otherwise` if the terminal is too narrow for it."""
    console = Console()
    needed = Console(width=10_000).measure(table).maximum
    if console.is_terminal and needed > console.width:
        otherwise()
    else:  # files and pipes have no width limit
        Console(width=needed).print(table)


def _print_stacked(rows: list[dict[str, Any]], names: list[str], differ: list[str]) -> None:
    for row in rows:
        click.secho("  ".join(_heading(row, names)) or "all", bold=True)
        if differ:
            click.echo(f"  {sanitize_line(conditions(row, differ))}")
        for name in ("partial", "strict"):
            lowered = f"  ({share(row[f'{name}_invalid_as_0'])} with invalid as 0)" if row["invalid"] else ""
            click.echo(f"  {name:<8}{score(row[name], row[f'{name}_ci'])}{lowered}")
        if tries := _tries(row):
            click.echo(f"  strict at the 1st try / retried {tries}")
        if attempts := _attempts(row):
            click.echo(f"  pass@k / pass^k {attempts}")
        earlier = f" ({row['earlier_attempts']} retried)" if row["earlier_attempts"] else ""
        click.echo(
            f"  {row['episodes']} episodes{earlier}, {row['invalid']} invalid, {row['tool_calls']} calls"
            f" ({row['failed_calls']} failed), isolation {sanitize_line(str(row['isolation']))},"
            f" verified {_verified(row)}"
            + (f", public tasks {_public(row)}" if row["public_tasks"] or row["private_tasks"] else "")
        )
        if tokens := _tokens(row):
            click.echo(f"  tokens in / out {tokens}{', cost ' if _cost(row) else ''}{_cost(row)}")
        if trouble := _trouble(row):
            click.echo(f"  {trouble}")


def _heading(row: dict[str, Any], names: list[str]) -> list[str]:
    return [sanitize_line(str(row[name] or "-")) for name in names]


def _lowered(row: dict[str, Any]) -> str:
    return f"{share(row['partial_invalid_as_0'])} / {share(row['strict_invalid_as_0'])}"


def _tokens(row: dict[str, Any]) -> str:
    counts = [row["input_tokens"], row["output_tokens"]]
    return "" if counts == [None, None] else " / ".join("-" if n is None else f"{n:,}" for n in counts)


def _cost(row: dict[str, Any]) -> str:
    return "" if row["cost_usd"] is None else f"${row['cost_usd']:.2f}"


def _attempts(row: dict[str, Any]) -> str:
    entry = usual_attempts(row)
    return f"{share(entry['pass_at_k'])} / {share(entry['pass_hat_k'])} (k={entry['k']})" if entry else ""


def _verified(row: dict[str, Any]) -> str:
    return f"{row['verified']}/{row['episodes'] - row['invalid']}"


def _public(row: dict[str, Any]) -> str:
    known = row["public_tasks"] + row["private_tasks"]
    return f"{row['public_tasks']}/{known}" if known else "-"


def _tries(row: dict[str, Any]) -> str:
    """Return the strict scores of first attempts and of retried episodes, or nothing without retries."""
    first, retried = row["first_attempts"], row["retried"]
    if not retried["episodes"]:
        return ""
    counts = f"(n={first['episodes']}, {retried['episodes']})"
    return f"{share(first['strict'])} / {share(retried['strict'])} {counts}"


def _trouble(row: dict[str, Any]) -> str:
    """Return counts of invalid reasons, of abnormal ends of valid episodes, and of tainted episodes."""
    badly = {end: count for end, count in row["terminations"].items() if end != "agent_exit"}
    badly |= {"tainted": row["tainted"]} if row["tainted"] else {}
    badly |= {f"graded despite {reason}": count for reason, count in row["claims"].items()}
    return sanitize_line(
        ", ".join(f"{count} {reason}" for reason, count in (row["invalid_reasons"] | badly).items())
    )


def share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def score(value: float | None, interval: list[float] | None) -> str:
    return share(value) + (f" [{interval[0]:.3f}, {interval[1]:.3f}]" if interval else "")
