"""The story of an improvement: on a terminal, and as a page with charts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import click
from rich.table import Table as TerminalTable
from rich.text import Text

from mcp_bench.recorder.cli.score_table import print_wide
from mcp_bench.recorder.counted import counted
from mcp_bench.recorder.html_report.page import check, write_page
from mcp_bench.recorder.html_report.sections import (
    INTERVALS,
    Cell,
    Chart,
    DotChart,
    Dots,
    Fact,
    Score,
    Section,
    Table,
)
from mcp_bench.recorder.scores.statistics import Interval
from mcp_bench.servers.grading import Measure
from mcp_bench.servers.terminal.sanitize import sanitize_line
from mcp_bench.trainer.folders import Outcome
from mcp_bench.trainer.improve.folder import Arm, ImproveFolder
from mcp_bench.trainer.improve.gate import gain
from mcp_bench.trainer.improve.on_test import OnTest, on_test
from mcp_bench.trainer.improve.recordings import Recordings


def print_history(folder: ImproveFolder, history: Outcome) -> None:
    """Print a row for each generation, then what came of it on test."""
    table = TerminalTable(box=None, header_style="bold", pad_edge=False)
    for name in ("generation", "proposal", "dev", "verdict", "why"):
        table.add_column(name, no_wrap=name != "why")
    rows = [
        [str(one["generation"]), one["action"], _gain(one), one["verdict"], one["why"]]
        for one in history["generations"]
    ]
    for row in rows:
        table.add_row(*(Text(sanitize_line(cell)) for cell in row))
    print_wide(table, lambda: click.echo("\n".join(sanitize_line(" | ".join(row)) for row in rows)))
    for line in summary(folder, history):
        click.echo(sanitize_line(line))


def summary(folder: ImproveFolder, history: Outcome) -> list[str]:
    """Return lines about what was reached, by what, and at what cost."""
    best, settings = Arm(**history["best"]), folder.read()
    lines = [f"Stopped: {history['stopped']}"] if history["stopped"] else ["Not finished yet"]
    if folder.harness(best.harness).is_dir():
        lines.append(f"Best harness: {folder.path / 'best'} (of generation {best.harness})")
    if best.weights:
        lines.append(f"Best weights: {Recordings(folder, settings).weights(best)}")
    if best == Arm():
        lines.append("Nothing was promoted: the agent is best as it was")
    found = on_test(folder, history)
    if found is not None and (gains := found.effects()):
        words = "; ".join(f"{one.name} {gain(one.value, one.interval, found.measure)}" for one in gains)
        lines.append(f"On test{'' if found.measure is None else _of(found.measure)}: {words}")
    for arm, (few, episodes) in found.doubtful.items() if found is not None else ():
        lines.append(
            f"Doubtful: on test, {few} of {episodes} episodes of {_name(arm)} are invalid or tainted, or "
            "failed by its word"
        )
    if found is not None and any(found.tokens.values()):
        counts = (f"{_name(arm)} {count:,}" for arm, count in found.tokens.items() if count)
        lines.append(f"Tokens per episode on test: {'; '.join(counts)}")
    spent = history.get("spent", {})
    used = [f"{spent.get('episodes', 0)} episodes", f"{spent.get('tokens', 0):,} tokens"]
    used += [f"{spent['usd']:.2f} USD"] if spent.get("usd") else []
    return [*lines, f"Used: {', '.join(used)}"]


def write_report(path: Path, folder: ImproveFolder) -> list[Path]:
    """Write the page and its PNG files. Return all of them.

    Raises:
        MissingDependencyError: matplotlib or Jinja2 is not installed.
        WrongUseError: the file name does not end with .html, or the folder has no improvement.
        BenchError: the files cannot be written.
    """
    check(path)
    history = folder.history()
    settings = folder.read()
    agent = " ".join(filter(None, (settings.agent, settings.model)))
    about = [
        f"{agent} on {settings.benchmark}, policy {settings.policy}, in {folder.path}",
        f"mcp-bench {version('mcp-bench-kit')}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
    ]
    pictures = write_page(path, f"Improvement {folder.path.name}", about, sections(folder, history))
    return [path, *pictures]


def sections(folder: ImproveFolder, history: Outcome) -> list[Section]:
    """Return the content of the page: the story of the generations, then first and last on test."""
    generations: Sequence[Outcome] = history["generations"]
    promoted = sum(one["promoted"] for one in generations)
    facts = [
        Fact("generations", str(len(generations)), f"{promoted} promoted"),
        Fact("episodes", f"{history.get('spent', {}).get('episodes', 0):,}", "of all recordings"),
        Fact("tokens", f"{history.get('spent', {}).get('tokens', 0):,}", "as the agents report them"),
    ]
    rows: list[list[Cell]] = [
        [
            one["generation"],
            one["action"],
            one["reason"],
            _gain(one),
            one["fixed"],
            one["broken"],
            one["verdict"],
            one["why"],
        ]
        for one in generations
    ]
    columns = ["generation", "proposal", "reason", "gain on dev", "fixed", "broken", "verdict", "why"]
    words = [
        *summary(folder, history),
        "Each proposal is compared with the best agent before it, on the same dev tasks. Scores on test "
        "decide nothing.",
    ]
    measured = [one for one in generations if one["tasks"]]
    same = len({str(one.get("measure")) for one in measured}) == 1  # else there is no common axis
    charts = [_gains(measured)] if same else []
    story = Section("The generations", words, facts, [Table("Generations", columns, rows)], charts)
    return [story, *_on_test(on_test(folder, history))]


def _gains(measured: Sequence[Outcome]) -> Chart:
    rows = [(f"generation {one['generation']}: {one['action']}", one["verdict"]) for one in measured]
    cells: list[list[Cell]] = [
        [one["generation"], one["verdict"], one["tasks"], _difference(one)] for one in measured
    ]
    of = _of(_measure(measured[0]))
    return DotChart(
        name="generations",
        title="Gain on dev by generation",
        says=f"Marks: mean paired differences{of}, above 0 where the change is better; {INTERVALS}.",
        table=Table("Gain on dev", ["generation", "verdict", "tasks", "gain"], cells),
        rows=rows,
        series=[Dots("partial", "partial", [_difference(one) for one in measured])],
    )


def _on_test(found: OnTest | None) -> list[Section]:
    """Return the section that compares first and last harness and weights on test, in total and by family."""
    if found is None:
        return []
    what = _of(found.measure)
    scored: list[list[Cell]] = [
        [part, *(_score(found.mean(part, arm)) for arm in found.arms)] for part in found.parts
    ]
    gains: list[list[Cell]] = [
        [part, one.name, one.tasks, Score(one.value, one.interval, signed=True)]
        for part in found.parts
        for one in found.effects(part)
    ]
    tokens: list[list[Cell]] = [[_name(arm), count] for arm, count in found.tokens.items()]
    charts: list[Chart] = []
    if whole := found.effects():
        charts.append(
            DotChart(
                name="effects",
                title="What the changes are worth on test",
                says=f"Marks: mean paired differences{what}, above 0 where it is better; {INTERVALS}. "
                "Interaction: what both together gain beyond the sum of their gains.",
                table=Table("Effects on test", ["of", "effect", "tasks", "gain"], gains),
                rows=[(one.name, counted(one.tasks, "task")) for one in whole],
                series=[
                    Dots("partial", "partial", [Score(one.value, one.interval, signed=True) for one in whole])
                ],
            )
        )
    tables = [
        Table(f"Means on test{what}", ["tasks", *(_name(arm) for arm in found.arms)], scored),
        Table("Tokens on test", ["arm", "tokens per episode"], tokens),
    ]
    return [Section("First and last on test", tables=tables, charts=charts)]


def _name(arm: Arm) -> str:
    sides = (("harness", arm.harness), ("weights", arm.weights))
    return ", ".join(
        f"{what} {f'of generation {number}' if number else 'at the start'}" for what, number in sides
    )


def _score(found: tuple[float, Interval | None] | None) -> Score:
    return Score(*found) if found else Score(None)


def _measure(one: Outcome) -> Measure | None:
    """Return what a generation was measured by, as it was stored."""
    found = one.get("measure")
    return None if found is None else tuple(found)


def _of(measure: Measure | None) -> str:
    """Return what scores are of, such as ` of size in bits/byte (lower is better)`."""
    if measure is None:
        return " of partial credit"
    name, unit, better = measure
    return f" of {name}{f' in {unit}' if unit else ''} ({better} is better)"


def _difference(one: Outcome) -> Score:
    if not one["tasks"]:
        return Score(None)
    return Score(one["difference"], tuple(one["interval"]) if one["interval"] else None, signed=True)


def _gain(one: Outcome) -> str:
    if not one["tasks"]:
        return "-"
    return gain(one["difference"], one["interval"] and tuple(one["interval"]), _measure(one))
