"""A comparison of two agents, models or runs as lines of text."""

from __future__ import annotations

from typing import Any

import click

from mcp_bench.recorder.cli.score_table import share
from mcp_bench.recorder.scores.comparison import FACTS, how_conditions_differ
from mcp_bench.recorder.scores.totals import cut_short
from mcp_bench.servers.terminal.sanitize import sanitize_line


def print_comparison(found: dict[str, Any], *, by_score: bool) -> None:
    """Print the result of `comparison.compare`.

    Args:
        found: the comparison.
        by_score: leave out partial and strict, and list the tasks on which the measured scores differ.
    """
    names = {side: sanitize_line(found[side]) for side in ("a", "b")}
    if how := how_conditions_differ(found):
        click.echo(sanitize_line(how))
    for row in found["rows"]:
        heading = " ".join(sanitize_line(str(row[name])) for name in FACTS if name in row)
        click.secho(f"{heading or 'all'}: {row['common_tasks']} common tasks", bold=True)
        if by_score:
            _print_scores(row, names)
            continue
        for side, name in names.items():
            scores = ", ".join(f"{score} {share(row[score][side])}" for score in ("partial", "strict"))
            click.echo(f"  {side.upper()} {name}: {scores}  ({_counts(row['sides'][side])})")
        click.echo(f"  B - A: {_differences(row)}")
        for measured in row["scores"]:
            click.echo(sanitize_line(f"  {_score(measured)}"))
        lowered = row["invalid_as_0"]
        if any(row["sides"][side]["invalid"] for side in names):
            click.echo(
                f"  with invalid as 0, on {lowered['common_tasks']} tasks: B - A: {_differences(lowered)}"
            )
        for direction, words in (("fail_to_pass", "fail -> pass"), ("pass_to_fail", "pass -> fail")):
            click.echo(f"  {words}: {len(row['flips'][direction])}")
            for flip in row["flips"][direction]:
                a, b = (f"{flip[side]['solved']}/{flip[side]['episodes']}" for side in ("a", "b"))
                click.echo(f"    {sanitize_line(flip['task'])}  solved {a} -> {b}")


def _print_scores(row: dict[str, Any], names: dict[str, str]) -> None:
    for side, name in names.items():
        click.echo(f"  {side.upper()} {name}: {_counts(row['sides'][side])}")
    for measured in row["scores"]:
        click.echo(sanitize_line(f"  {_score(measured)}"))
        for way in ("better", "worse"):
            click.echo(f"  B is {way}: {len(measured['flips'][way])}")
            for flip in measured["flips"][way]:
                a, b = (_amount(flip[side], measured["unit"]) for side in ("a", "b"))
                click.echo(sanitize_line(f"    {flip['task']}  {a} -> {b}"))
    if not row["scores"]:
        click.echo("  no task has a measured score in all attempts of both sides")


def _amount(value: float, unit: str) -> str:
    return f"{value:.4g} {unit}".rstrip()


def _score(found: dict[str, Any]) -> str:
    unit = f" {found['unit']}" if found["unit"] else ""
    low, high = found["difference_ci"] or (None, None)
    interval = "" if low is None else f" [{low:+.4g}, {high:+.4g}]"
    return (
        f"{found['name']} ({found['better']} is better, {found['common_tasks']} tasks): "
        f"A {found['a']:.4g}{unit}, B {found['b']:.4g}{unit}, "
        f"B - A: {found['difference']:+.4g}{interval}{unit}, "
        f"B is better on {found['b_better']}, worse on {found['b_worse']}"
    )


def _counts(side: dict[str, Any]) -> str:
    badly = side["invalid_reasons"] | cut_short(side)
    trouble = [f"{count} {sanitize_line(reason)}" for reason, count in badly.items()]
    counts = [f"{side['episodes']} episodes", f"{side['tasks']} tasks", f"{side['invalid']} invalid"]
    return ", ".join([*counts, f"{side['tool_calls']} calls", f"{side['failed_calls']} failed", *trouble])


def _differences(row: dict[str, Any]) -> str:
    return ", ".join(f"{score} {_signed(row[score])}" for score in ("partial", "strict"))


def _signed(score: dict[str, Any]) -> str:
    if score["difference"] is None:
        return "-"
    interval = score["difference_ci"]
    return f"{score['difference']:+.3f}" + (f" [{interval[0]:+.3f}, {interval[1]:+.3f}]" if interval else "")
