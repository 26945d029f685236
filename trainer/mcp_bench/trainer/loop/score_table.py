"""Print the scores of finished loops: the base model and the best model, by group of tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from mcp_bench.recorder.cli.score_table import print_wide, score
from mcp_bench.servers.terminal.sanitize import sanitize_line
from mcp_bench.trainer.trial.scores import MEASURED


def print_scores(histories: Sequence[dict[str, Any]]) -> None:
    """Print one row for each split and group of tasks.

    One loop is shown with 95 % intervals, several loops with means and single scores.
    """
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("split", "tasks of"):
        table.add_column(name, no_wrap=True)
    for name in ("tasks", "invalid", "base partial", "best partial", "base strict", "best strict"):
        table.add_column(name, justify="right", no_wrap=True)
    for split, group in _groups(histories):
        base, best = (_rows(histories, model, split, group) for model in ("base", "best"))
        counts = [_same(row[name] for row in (*base, *best)) for name in ("tasks", "invalid")]
        scores = [_cell(rows, name) for name in ("partial", "strict") for rows in (base, best)]
        table.add_row(*(Text(sanitize_line(cell)) for cell in (split, group, *counts, *scores)))
    print_wide(table, lambda: _print_stacked(histories))
    _print_cut_short(histories)


def _print_cut_short(histories: Sequence[dict[str, Any]]) -> None:
    """Say how many episodes the time limit, or something else, ended: a busy machine lowers scores."""
    for model in ("base", "best"):
        for split in MEASURED:
            found = [history[model][split] for history in histories if split in history[model]]
            episodes = sum(one["episodes"] for one in found)
            ends = Counter[str]()
            for one in found:
                ends.update(one.get("cut_short", {}))  # older loops did not count
            for end, count in ends.items():
                text = f"{model} on {split}: {count} of {episodes} episodes ended by {end}"
                click.echo(sanitize_line(text))


def _print_stacked(histories: Sequence[dict[str, Any]]) -> None:
    for split, group in _groups(histories):
        click.secho(sanitize_line(f"{split}, {group}"), bold=True)
        for name in ("partial", "strict"):
            cells = [_cell(_rows(histories, model, split, group), name) for model in ("base", "best")]
            click.echo(f"  {name:<8}base {cells[0]}, best {cells[1]}")


def _groups(histories: Iterable[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return the (split, group) pairs that all loops have."""
    found = [
        {
            (split, group)
            for split in MEASURED
            if split in history["base"]
            for group in history["base"][split]["groups"]
        }
        for history in histories
    ]
    return sorted(set.intersection(*found))


def _rows(histories: Iterable[dict[str, Any]], model: str, split: str, group: str) -> list[dict[str, Any]]:
    return [history[model][split]["groups"][group] for history in histories]


def _cell(rows: Sequence[dict[str, Any]], name: str) -> str:
    if len(rows) == 1:
        return score(rows[0][name], rows[0][f"{name}_ci"])
    known = [row[name] for row in rows if row[name] is not None]
    each = ", ".join(score(row[name], None) for row in rows)
    return f"{score(fmean(known) if known else None, None)} ({each})"


def _same(values: Iterable[int]) -> str:
    return " / ".join(map(str, sorted(set(values))))
