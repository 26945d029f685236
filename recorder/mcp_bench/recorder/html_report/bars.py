"""Bar charts of flipped tasks: newly solved ones to the right, newly failed ones to the left."""

from __future__ import annotations

from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

from mcp_bench.recorder.html_report.canvas import legend
from mcp_bench.recorder.html_report.palette import LIGHT
from mcp_bench.recorder.html_report.rows import LANE, Rows
from mcp_bench.recorder.html_report.sections import FlipChart


def draw_flips(chart: FlipChart, title: str) -> Figure:
    rows = Rows(chart.rows, 1, title, right=0.12)
    shown = slice(len(rows.labels))
    fixed, broken = chart.fixed[shown], chart.broken[shown]
    # zero is centred to compare both sides; the margin leaves room for the numbers
    most = max(1, *fixed, *broken)
    rows.span(-most * 1.15, most * 1.15)
    for counts, role, way in ((broken, "broken", -1), (fixed, "fixed", 1)):
        places = [rows.y(at, 0) for at in range(len(counts))]
        rows.axes.barh(places, [way * count for count in counts], height=LANE * 0.85, color=LIGHT[role])
        for count, y in zip(counts, places, strict=True):
            rows.axes.annotate(
                str(count),
                (way * count, y),
                xytext=(4 * way, 0),
                textcoords="offset points",
                ha="left" if way > 0 else "right",
                va="center",
                color=LIGHT[role],
                weight="bold",
            )
    rows.axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True))
    rows.axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{abs(value):.0f}"))
    handles = [Patch(color=LIGHT["broken"], label="broken"), Patch(color=LIGHT["fixed"], label="fixed")]
    legend(rows.figure, handles, title)
    return rows.figure
