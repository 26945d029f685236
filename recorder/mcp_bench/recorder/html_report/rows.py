"""The layout of charts with rows: each row has a label and a note above its marks."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mcp_bench.recorder.html_report.canvas import MARGIN, sheet, shorten
from mcp_bench.recorder.html_report.palette import LIGHT
from mcp_bench.recorder.html_report.sections import MOST_ROWS

LANE = 0.19
_LABEL = 0.25
_GAP = 0.1
_LETTERS = 52


class Rows:
    """A canvas for the first `MOST_ROWS` rows. Heights are in inches, x is in the chart's unit."""

    def __init__(self, rows: Sequence[tuple[str, str]], lanes: int, title: str, *, right: float) -> None:
        self._slot = _LABEL + LANE * lanes + _GAP
        self.labels = rows[:MOST_ROWS]
        self.figure: Figure
        self.axes: Axes
        height = self._slot * len(self.labels)
        self.figure, self.axes = sheet(height, title, left=MARGIN, right=right, bottom=0.3)
        self.axes.set(ylim=(height, 0), yticks=[])
        self.axes.grid(axis="x")
        for at, (label, whole) in enumerate(self.labels):
            note = shorten(whole, _LETTERS * 3 // 5)
            self._write(0, at, shorten(label, _LETTERS - len(note)), "ink", "left")
            self._write(1, at, note, "muted", "right")

    def y(self, row: int, lane: int) -> float:
        """Return the vertical centre of a lane."""
        return row * self._slot + _LABEL + LANE * (lane + 0.5)

    def span(self, low: float, high: float) -> None:
        """Set the limits of the x axis, with a margin of half a mark."""
        margin = (high - low) * 0.015
        self.axes.set_xlim(low - margin, high + margin)
        if low < 0:
            self.axes.axvline(0, color=LIGHT["muted"], linewidth=0.9)

    def _write(self, x: float, row: int, text: str, colour: str, align: str) -> None:
        where = self.axes.get_yaxis_transform()
        y = row * self._slot + _LABEL - 0.05
        self.axes.text(x, y, text, color=LIGHT[colour], ha=align, va="bottom", transform=where)
