"""The section that compares two sides on the same tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mcp_bench.recorder.counted import counted
from mcp_bench.recorder.html_report.recordings import labels
from mcp_bench.recorder.html_report.sections import (
    DIRECTIONS,
    Cell,
    Chart,
    DotChart,
    Dots,
    FlipChart,
    Score,
    Section,
    Table,
)
from mcp_bench.recorder.scores.comparison import FACTS, how_conditions_differ


def compared(found: dict[str, Any]) -> Section:
    """Return the section for a result of `comparison.compare_alike`."""
    a, b = found["a"], found["b"]
    words = [
        f"A is {a}, B is {b}. Differences are B - A over the tasks for which both have a valid graded "
        "episode; values above zero favour B."
    ]
    if differ := how_conditions_differ(found):
        words.append(f"{differ}.")
    rows = [row for row in found["rows"] if row["common_tasks"]]
    if not rows:
        return Section("A against B", [*words, "No task has a valid graded episode on both sides."])
    names = labels(rows, [name for name in FACTS if name in rows[0]])
    flips = _flips(rows, names)
    return Section(
        "A against B",
        words,
        tables=[table for table in (flips, *_measured(rows, names)) if table.rows],
        charts=[_differences(rows, names), _flip_chart(rows, names)],
    )


def _differences(rows: Sequence[dict[str, Any]], names: Sequence[str]) -> Chart:
    invalid = any(row["sides"][side]["invalid"] for row in rows for side in "ab")
    columns = ["on", "common tasks", "invalid of A", "invalid of B"]
    columns += [f"{kind} {what}" for kind in ("partial", "strict") for what in ("of A", "of B", "B - A")]
    columns += [f"{kind} B - A, invalid as 0" for kind in ("partial", "strict")] if invalid else []
    cells: list[list[Cell]] = []
    for name, row in zip(names, rows, strict=True):
        sides = [row["sides"][side]["invalid"] for side in "ab"]
        scores = [
            value
            for kind in ("partial", "strict")
            for value in (row[kind]["a"], row[kind]["b"], _difference(row, kind))
        ]
        lowered = [signed(row["invalid_as_0"][kind]) for kind in ("partial", "strict")] if invalid else []
        cells.append([name, row["common_tasks"], *sides, *scores, *lowered])
    ticks = "; vertical ticks: invalid episodes count as 0" if invalid else ""
    return DotChart(
        name="difference",
        title="B - A on the same tasks",
        says="Dots: means of paired differences; bars: 95 % bootstrap intervals over the pairs; the number "
        f"of tasks is at the right of each row{ticks}.",
        table=Table("Paired differences", columns, cells),
        rows=[(name, counted(row["common_tasks"], "task")) for name, row in zip(names, rows, strict=True)],
        series=[
            Dots("partial", "partial", [_difference(row, "partial") for row in rows]),
            Dots("strict", "strict", [_difference(row, "strict") for row in rows]),
        ],
    )


def _difference(row: dict[str, Any], kind: str) -> Score:
    invalid = any(row["sides"][side]["invalid"] for side in "ab")
    return signed(row[kind], row["invalid_as_0"][kind]["difference"] if invalid else None)


def signed(found: dict[str, Any], lowered: float | None = None) -> Score:
    """Return a paired difference from `comparison.compare`.

    Args:
        found: the difference and its interval.
        lowered: the difference with invalid episodes as 0.
    """
    interval = found["difference_ci"]
    return Score(found["difference"], tuple(interval) if interval else None, lowered, signed=True)


def _flip_chart(rows: Sequence[dict[str, Any]], names: Sequence[str]) -> Chart:
    fixed, broken = ([len(row["flips"][way]) for row in rows] for way in DIRECTIONS)
    tasks = [row["common_tasks"] for row in rows]
    return FlipChart(
        name="flips",
        title="Tasks that flipped",
        says=f"Of {counted(sum(tasks), 'task')}, B solves {sum(fixed)} that A fails (right), and fails "
        f"{sum(broken)} that A solves (left). Solved means in more than half of the attempts.",
        table=Table(
            "Tasks that flipped",
            ["on", "common tasks", "fixed", "broken"],
            list(zip(names, tasks, fixed, broken, strict=True)),
        ),
        rows=[(name, counted(count, "task")) for name, count in zip(names, tasks, strict=True)],
        fixed=fixed,
        broken=broken,
    )


def _flips(rows: Sequence[dict[str, Any]], names: Sequence[str]) -> Table:
    several = len(rows) > 1
    cells: list[list[Cell]] = [
        [*([name] if several else []), flip["task"], words, *_solved(flip)]
        for name, row in zip(names, rows, strict=True)
        for way, words in DIRECTIONS.items()
        for flip in row["flips"][way]
    ]
    columns = ["task", "flip", "A solved", "B solved", "partial of A", "partial of B"]
    return Table("Tasks that flipped, by name", [*(["on"] if several else []), *columns], cells)


def _solved(flip: dict[str, Any]) -> list[Cell]:
    solved = [f"{flip[side]['solved']} of {flip[side]['episodes']}" for side in "ab"]
    return [*solved, *(flip[side]["partial"] for side in "ab")]


def _measured(rows: Sequence[dict[str, Any]], names: Sequence[str]) -> list[Table]:
    """Return the table of measured scores, and the table of the tasks on which they differ."""
    several = len(rows) > 1
    found = [
        ([name] if several else [], one)
        for name, row in zip(names, rows, strict=True)
        for one in row["scores"]
    ]
    on = ["on"] if several else []
    means: list[list[Cell]] = [
        [
            *label,
            _words(one),
            one["common_tasks"],
            *(f"{one[side]:.4g}" for side in "ab"),
            f"{one['difference']:+.4g}" + _span(one["difference_ci"]),
            one["b_better"],
            one["b_worse"],
        ]
        for label, one in found
    ]
    tasks: list[list[Cell]] = [
        [*label, flip["task"], _words(one), f"B is {way}", *(f"{flip[side]:.4g}" for side in "ab")]
        for label, one in found
        for way, flips in one["flips"].items()
        for flip in flips
    ]
    return [
        Table(
            "Measured scores",
            [*on, "score", "common tasks", "A", "B", "B - A", "B is better on", "worse on"],
            means,
        ),
        Table("Tasks on which they measured different scores", [*on, "task", "score", "", "A", "B"], tasks),
    ]


def _words(one: dict[str, Any]) -> str:
    unit = f" in {one['unit']}" if one["unit"] else ""
    return f"{one['name']}{unit}, {one['better']} is better"


def _span(interval: Sequence[float] | None) -> str:
    return f" [{interval[0]:+.4g}, {interval[1]:+.4g}]" if interval else ""
