"""Line charts: scores over turns, and losses over steps."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from mcp_bench.recorder.html_report.canvas import draw_interval, legend, mark, sheet, shorten
from mcp_bench.recorder.html_report.palette import LIGHT
from mcp_bench.recorder.html_report.sections import Line, LineChart

_MOST_IN_LEGEND = 5
_WIDTH = 1.4
_BESIDE = 0.07
"""Horizontal shift between lines, in turns, so that their intervals do not overlap."""


def draw_lines(chart: LineChart, title: str) -> Figure:
    figure, axes = sheet(2.35, title, left=0.5, right=0.2, bottom=0.5)
    axes.grid(axis="y")
    axes.set_xlabel(shorten(chart.x_label, 40))
    for at, line in enumerate(chart.lines):
        shift = (at - (len(chart.lines) - 1) / 2) * _BESIDE if chart.ticks else 0.0
        _draw_line(axes, line, shift, marks=bool(chart.ticks))
    if chart.ticks:
        axes.set_xticks(list(chart.ticks), [shorten(name, 12) for name in chart.ticks.values()])
        axes.set_xlim(min(chart.ticks) - 0.4, max(chart.ticks) + 0.4)
    else:
        axes.set_xlim(left=0)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    if chart.share:
        axes.set_ylim(-0.02, 1.02)
    else:
        axes.set_ylim(min(0, axes.dataLim.y0), max(0, axes.get_ylim()[1]))
    legend(figure, _handles(chart), title)
    return figure


def _draw_line(axes: Axes, line: Line, shift: float, *, marks: bool) -> None:
    colour = LIGHT[line.role]
    points = [
        (x + shift, score.value, score, place in line.hollow)
        for place, (x, score) in enumerate(zip(line.x, line.scores, strict=True))
        if score.value is not None
    ]
    xs, ys = [x for x, *_ in points], [y for _, y, *_ in points]
    lone = "." if len(points) == 1 and not marks else None  # a line of one point would be invisible
    axes.plot(xs, ys, color=colour, linewidth=_WIDTH, alpha=line.strength, marker=lone, clip_on=False)
    for x, y, score, hollow in points if marks else ():
        if score.interval:
            draw_interval(axes, (x, x), score.interval, line.role)
        if score.lowered is not None:
            axes.plot(x, score.lowered, "_", color=colour, markersize=9, markeredgewidth=1.4, clip_on=False)
        axes.plot(x, y, **mark(line.role, hollow=hollow), clip_on=False)


def _handles(chart: LineChart) -> list[Line2D]:
    shown = list(chart.lines)
    if len(shown) > _MOST_IN_LEGEND:  # line strength increases from the first to the last
        shown = [shown[0], shown[len(shown) // 2], shown[-1]]
    handles = []
    for line in shown:
        style = mark(line.role) if chart.ticks else {}
        style |= {"linestyle": "-", "linewidth": _WIDTH, "alpha": line.strength, "color": LIGHT[line.role]}
        handles.append(Line2D([], [], label=shorten(line.name, 16), **style))
    if chart.hollow_means and any(line.hollow for line in chart.lines):
        style = {**mark("partial", hollow=True), "markeredgecolor": LIGHT["muted"]}
        handles.append(Line2D([], [], label=shorten(chart.hollow_means, 16), **style))
    if any(score.lowered is not None for line in chart.lines for score in line.scores):
        style = {"linestyle": "none", "marker": "_", "markersize": 9, "color": LIGHT["muted"]}
        handles.append(Line2D([], [], label="invalid as 0", **style))
    return handles
