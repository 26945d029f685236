"""Scores on a terminal: a table, or a few lines for each row if the terminal is too narrow.

Only what says something about the rows is a column. What is the same for all of them is in a line above the
table, and what none of them has is left out. `--json` and the page have everything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mcp_bench.recorder.scores.conditions import CONDITIONS, differing_conditions
from mcp_bench.recorder.scores.scores import measured_score, usual_attempts
from mcp_bench.recorder.scores.totals import cut_short
from mcp_bench.servers.terminal.sanitize import sanitize_line

Row = dict[str, Any]

_WHO = ("agent", "model")
"""What stays a column even with a single row."""


@dataclass(frozen=True, slots=True)
class _Column:
    title: str
    cells: list[str]
    """Of each row; an empty one says nothing."""
    number: bool = True


def print_scores(rows: Sequence[Row], names: Sequence[str]) -> None:
    """Print the rows of a report that is grouped by `names`."""
    above, facts = _facts(rows, [name for name in names if name not in CONDITIONS])
    columns = [*facts, *(column for column in _figures(rows) if any(column.cells))]
    if above:
        click.echo(sanitize_line(", ".join(above)))
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        if column.number:
            table.add_column(column.title, justify="right", no_wrap=True)
        else:
            table.add_column(column.title, overflow="fold")
    for at in range(len(rows)):
        table.add_row(*(Text(sanitize_line(column.cells[at])) for column in columns))
    print_wide(table, lambda: _print_stacked(len(rows), facts, columns[len(facts) :]))


def print_wide(table: Table, otherwise: Callable[[], object]) -> None:
    """Print a table at full width, or call `otherwise` if the terminal is too narrow for it."""
    terminal, wide = Console(), full_width(table)
    if terminal.is_terminal and wide.width > terminal.width:
        otherwise()
    else:  # files and pipes have no width limit
        wide.print(table)


def full_width(table: Table) -> Console:
    """Return a console that is just wide enough for a table."""
    return Console(width=Console(width=10_000).measure(table).maximum)


def _print_stacked(count: int, facts: Sequence[_Column], figures: Sequence[_Column]) -> None:
    console = Console()
    for at in range(count):
        click.secho(sanitize_line("  ".join(column.cells[at] for column in facts) or "all"), bold=True)
        for title in ("partial", "strict"):
            (value,) = (column.cells[at] for column in figures if column.title == title)
            click.echo(f"  {title:<8}{value}")
        rest = [column for column in figures if column.title not in ("partial", "strict")]
        said = ", ".join(f"{column.title} {column.cells[at]}" for column in rest if column.cells[at])
        for line in Text(sanitize_line(said)).wrap(console, max(console.width - 2, 20)):
            click.echo(f"  {line.plain.rstrip()}")


def _facts(rows: Sequence[Row], names: Sequence[str]) -> tuple[list[str], list[_Column]]:
    """Return what identifies the rows: what they share in words, and columns for what differs."""
    found = [_Column(name, [str(row[name] or "-") for row in rows], number=False) for name in names]
    words = differing_conditions(rows, but=("isolation",))  # it has a column of its own
    found += [_Column("conditions", words, number=False)] if any(words) else []
    found += [_Column("isolation", [str(row["isolation"]) for row in rows], number=False)]
    found += [_Column("run tags", [", ".join(row["run_tags"]) for row in rows], number=False)]
    found += [
        _share("verified", [(row["verified"], row["episodes"] - row["invalid"]) for row in rows]),
        _share("public tasks", [(row["public_tasks"], _known_tasks(row)) for row in rows]),
    ]
    above, columns = [], []
    for column in found:
        values = set(column.cells)
        if values <= {"", "-"}:
            continue
        if len(values) > 1 or (len(rows) == 1 and column.title in _WHO):
            columns.append(column)
        else:
            above.append(f"{column.title} {column.cells[0]}")
    return above, columns


def _share(title: str, counts: Sequence[tuple[int, int]]) -> _Column:
    """Return a column of shares, in words if all rows have all or none."""
    known = [(part, whole) for part, whole in counts if whole]
    for word, same in (("all", lambda part, whole: part == whole), ("none", lambda part, _: not part)):
        if known and all(same(part, whole) for part, whole in known):
            return _Column(title, [word] * len(counts))
    return _Column(title, [f"{part}/{whole}" if whole else "" for part, whole in counts])


def _known_tasks(row: Row) -> int:
    return int(row["public_tasks"] + row["private_tasks"])


def _figures(rows: Sequence[Row]) -> list[_Column]:
    """Return the columns of figures; those that no row has are empty."""
    columns = [
        ("episodes", [str(row["episodes"]) for row in rows]),
        ("retried", [str(row["earlier_attempts"] or "") for row in rows]),
        ("invalid", [str(row["invalid"] or "") for row in rows]),
        ("partial", [score(row["partial"], row["partial_ci"]) for row in rows]),
        ("strict", [score(row["strict"], row["strict_ci"]) for row in rows]),
        ("score", [measured_score(row["score"]) for row in rows]),
        ("inv. as 0", [_lowered(row) for row in rows]),
        ("1st try / retried", [_tries(row) for row in rows]),
        ("pass@k / pass^k", [_attempts(row) for row in rows]),
        ("calls", [str(row["tool_calls"]) for row in rows]),
        ("failed", [str(row["failed_calls"] or "") for row in rows]),
        ("time", [_seconds(row["seconds_per_episode"]) for row in rows]),
        ("tokens in / out", [_tokens(row) for row in rows]),
        ("cost", [_dollars(row["cost_usd"]) for row in rows]),
        ("roles", [_dollars(row["roles_cost_usd"]) for row in rows]),
        ("per solved", [_dollars(row["cost_per_solved_usd"]) for row in rows]),
    ]
    found = [_Column(title, cells) for title, cells in columns]
    return [*found, _Column("errors", [_trouble(row) for row in rows], number=False)]


def _lowered(row: Row) -> str:
    lowered = f"{share(row['partial_invalid_as_0'])} / {share(row['strict_invalid_as_0'])}"
    return lowered if row["invalid"] else ""


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.0f} s" if value >= 100 else f"{value:.1f} s"


def _tokens(row: Row) -> str:
    counts = [row["input_tokens"], row["output_tokens"]]
    return "" if counts == [None, None] else " / ".join("-" if n is None else _count(n) for n in counts)


def _count(number: int) -> str:
    return f"{number:,}" if number < 1_000_000 else f"{number / 1_000_000:,.1f}M"


def _dollars(value: float | None) -> str:
    return "" if value is None else f"${value:.4f}" if 0 < value < 0.01 else f"${value:.2f}"


def _attempts(row: Row) -> str:
    entry = usual_attempts(row)
    return f"{share(entry['pass_at_k'])} / {share(entry['pass_hat_k'])} (k={entry['k']})" if entry else ""


def _tries(row: Row) -> str:
    """Return the strict scores of first attempts and of retried episodes, or nothing without retries."""
    first, retried = row["first_attempts"], row["retried"]
    if not retried["episodes"]:
        return ""
    counts = f"(n={first['episodes']}, {retried['episodes']})"
    return f"{share(first['strict'])} / {share(retried['strict'])} {counts}"


def _trouble(row: Row) -> str:
    """Return counts of invalid reasons, of abnormal ends of valid episodes, and of tainted episodes."""
    badly = cut_short(row)
    badly |= {"tainted": row["tainted"]} if row["tainted"] else {}
    badly |= {f"graded despite {reason}": count for reason, count in row["claims"].items()}
    return ", ".join(f"{count} {reason}" for reason, count in (row["invalid_reasons"] | badly).items())


def share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def score(value: float | None, interval: list[float] | None) -> str:
    return share(value) + (f" [{interval[0]:.3f}, {interval[1]:.3f}]" if interval else "")
