"""The canvas for charts: narrow enough for a phone, with fixed margins in inches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from mcp_bench.recorder.html_report.palette import LIGHT
from mcp_bench.recorder.html_report.sections import Role
from mcp_bench.servers.terminal.sanitize import sanitize_line

WIDTH = 4.8
MARGIN = 0.12
TITLE = 0.34
LEGEND = 0.32
STYLE: Any = {
    "font.family": ["DejaVu Sans"],
    "font.size": 9,
    "text.color": LIGHT["ink"],
    "text.parse_math": False,  # names can contain dollar signs
    "axes.edgecolor": LIGHT["rule"],
    "axes.facecolor": "none",
    "axes.labelcolor": LIGHT["muted"],
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.axisbelow": True,
    "axes.unicode_minus": True,
    "figure.facecolor": LIGHT["paper"],
    "grid.color": LIGHT["rule"],
    "grid.linewidth": 0.6,
    "xtick.color": LIGHT["rule"],
    "ytick.color": LIGHT["rule"],
    "xtick.labelcolor": LIGHT["muted"],
    "ytick.labelcolor": LIGHT["muted"],
    "ytick.left": False,
    "svg.fonttype": "none",
}


def sheet(height: float, title: str, *, left: float, right: float, bottom: float) -> tuple[Figure, Axes]:
    """Return a figure with one pair of axes, `height` inches high. All sizes are in inches.

    The legend is above the axes, and the title above that. Only PNG files have a title.
    """
    top = LEGEND + (TITLE if title else 0)
    whole = height + bottom + top
    figure = Figure(figsize=(WIDTH, whole))
    FigureCanvasAgg(figure)
    axes = figure.add_axes((left / WIDTH, bottom / whole, (WIDTH - left - right) / WIDTH, height / whole))
    if title:
        figure.text(
            MARGIN / WIDTH,
            1 - MARGIN / whole,
            shorten(title, 52),
            ha="left",
            va="top",
            size=11,
            weight="bold",
        )
    return figure, axes


def legend(figure: Figure, handles: list[Any], title: str) -> None:
    """Put a one-line legend above the axes."""
    whole = figure.get_size_inches()[1]
    at = 1 - ((TITLE if title else 0) + 0.03) / whole
    figure.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(MARGIN / WIDTH, at),
        ncols=max(1, len(handles)),
        frameon=False,
        borderpad=0,
        borderaxespad=0,
        handlelength=1.2,
        handletextpad=0.5,
        columnspacing=1.4,
        labelcolor=LIGHT["ink"],
    )


def mark(role: Role, *, hollow: bool = False) -> dict[str, Any]:
    """Return the style of a dot. Strict scores differ in shape (diamonds) as well as colour."""
    diamond = role == "strict"
    return {
        "linestyle": "none",
        "marker": "D" if diamond else "o",
        "markersize": 5.5 if diamond else 6.5,
        "markeredgecolor": LIGHT[role],
        "markerfacecolor": LIGHT["paper"] if hollow else LIGHT[role],
        "markeredgewidth": 1.3,
    }


def draw_interval(
    axes: Axes, x: Sequence[float], y: Sequence[float], role: Role, *, thin: bool = False
) -> None:
    axes.plot(x, y, color=LIGHT[role], linewidth=0.8 if thin else 1.6, alpha=0.5, solid_capstyle="butt")


def shorten(text: str, most: int) -> str:
    """Return `text` as one line of at most `most` characters.

    The middle is cut, since names tend to differ at their ends.
    """
    text = sanitize_line(text)
    if len(text) <= most:
        return text
    head = (most - 1) // 2
    return f"{text[:head]}…{text[len(text) - (most - 1 - head) :]}"
