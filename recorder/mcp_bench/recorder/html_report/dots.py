"""Dot charts: one row per group, with scores, intervals and values at the right."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from mcp_bench.recorder.html_report.canvas import draw_interval, legend, mark, shorten
from mcp_bench.recorder.html_report.palette import LIGHT
from mcp_bench.recorder.html_report.rows import Rows
from mcp_bench.recorder.html_report.sections import MOST_ROWS, DotChart, Dots, Score

_REACHES = (0.1, 0.25, 0.5, 1.0)
"""Axis limits for differences, on either side of zero. The first that covers all values is used."""


def draw_dots(chart: DotChart, title: str) -> Figure:
    lanes = _lanes(chart.series)
    rows = Rows(chart.rows, lanes[-1] + 1, title, right=0.62)
    signed = any(score.signed for score in _scores(chart))
    reach = _reach(chart) if signed else 1.0
    rows.span(-reach if signed else 0.0, reach)
    for at in range(len(rows.labels)):
        for dots, lane in zip(chart.series, lanes, strict=True):
            _draw_score(rows.axes, rows.y(at, lane), dots, dots.scores[at])
    legend(rows.figure, _handles(chart), title)
    return rows.figure


def _lanes(series: Sequence[Dots]) -> list[int]:
    """Return the lane of each series within a row. A hollow series shares the lane of the next one."""
    found, lane = [], 0
    for dots in series:
        found.append(lane)
        lane += not dots.hollow
    return found


def _scores(chart: DotChart) -> list[Score]:
    return [score for dots in chart.series for score in dots.scores[:MOST_ROWS]]


def _reach(chart: DotChart) -> float:
    values = [
        value for score in _scores(chart) for value in (score.value, score.lowered, *(score.interval or ()))
    ]
    most = max((abs(value) for value in values if value is not None), default=0.0)
    return next((reach for reach in _REACHES if most <= reach), 1.0)


def _draw_score(axes: Axes, y: float, dots: Dots, score: Score) -> None:
    colour = LIGHT[dots.role]
    if not dots.hollow:
        text = "-" if score.value is None else f"{score.value:{'+' if score.signed else ''}.2f}"
        where = axes.get_yaxis_transform()
        axes.text(1.025, y, text, color=colour, va="center", weight="bold", transform=where)
    if score.value is None:
        return
    if score.interval:
        draw_interval(axes, score.interval, (y, y), dots.role, thin=dots.hollow)
    if score.lowered is not None:
        axes.plot(score.lowered, y, "|", color=colour, markersize=9, markeredgewidth=1.4)
    axes.plot(score.value, y, **mark(dots.role, hollow=dots.hollow), clip_on=False)


def _handles(chart: DotChart) -> list[Line2D]:
    handles = [
        Line2D([], [], label=shorten(dots.name, 20), **mark(dots.role))
        for dots in chart.series
        if not dots.hollow
    ]
    for dots in [dots for dots in chart.series if dots.hollow][:1]:  # hollow series share one name
        style = {**mark(dots.role, hollow=True), "markeredgecolor": LIGHT["muted"]}
        handles.append(Line2D([], [], label=shorten(dots.name, 20), **style))
    if any(score.lowered is not None for score in _scores(chart)):
        style = {"linestyle": "none", "marker": "|", "markersize": 9}
        handles.append(Line2D([], [], label="invalid as 0", color=LIGHT["muted"], **style))
    return handles
