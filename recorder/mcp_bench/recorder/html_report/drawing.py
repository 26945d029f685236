"""Render charts with matplotlib: SVG that follows the page's colours, and PNG."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import matplotlib as mpl
from matplotlib.figure import Figure

from mcp_bench.recorder.html_report.bars import draw_flips
from mcp_bench.recorder.html_report.canvas import MARGIN, STYLE
from mcp_bench.recorder.html_report.dots import draw_dots
from mcp_bench.recorder.html_report.lines import draw_lines
from mcp_bench.recorder.html_report.palette import LIGHT
from mcp_bench.recorder.html_report.sections import Chart, DotChart, FlipChart, LineChart

PNG_DPI = 200
_ROLES = {colour: role for role, colour in LIGHT.items()}
_TAG = re.compile(r"<[^>]*>")
_COLOUR = re.compile(r"(fill|stroke): (#[0-9a-f]{6})")
_ID = re.compile(r' id="([^"]*)"')


def svg(chart: Chart, key: str) -> str:
    """Return a chart as an `<svg>` element that uses the page's fonts and CSS colour variables.

    Args:
        chart: the chart.
        key: prefix of the element ids. Unique on the page; letters, digits and hyphens only.
    """
    with _style(key):
        out = io.StringIO()
        _draw(chart, title="").savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    referred = set(re.findall(r"#([\w-]+)", text))

    def mend(tag: re.Match[str]) -> str:
        # only within tags: text between them can come from agents
        found = _COLOUR.sub(lambda m: f"{m[1]}: {_variable(m[2])}", tag[0])
        return _ID.sub(lambda m: m[0] if m[1] in referred else "", found)

    text = _TAG.sub(mend, text)
    opening, rest = text.split(">", 1)
    _, _, width, height = (float(part) for part in re.findall(r'viewBox="([^"]*)"', opening)[0].split())
    left = MARGIN * 72  # points; the page has its own margin
    box = f'viewBox="{left} 0 {width - left} {height}"'
    return (
        f'<svg {box} role="img" aria-labelledby="{key}-title {key}-says" xmlns="http://www.w3.org/2000/svg"'
        f' xmlns:xlink="http://www.w3.org/1999/xlink">{rest.strip()}'
    )


def png(chart: Chart) -> bytes:
    """Return a chart, including its title, as PNG data."""
    with _style(chart.name):
        out = io.BytesIO()
        _draw(chart, chart.title).savefig(out, format="png", dpi=PNG_DPI, metadata={"Software": "mcp-bench"})
    return out.getvalue()


def _draw(chart: Chart, title: str) -> Figure:
    match chart:
        case DotChart():
            return draw_dots(chart, title)
        case LineChart():
            return draw_lines(chart, title)
        case FlipChart():
            return draw_flips(chart, title)
    raise TypeError(f"cannot draw a {type(chart).__name__}")


def _variable(colour: str) -> str:
    return f"var(--{_ROLES[colour]})" if colour in _ROLES else colour


@contextmanager
def _style(salt: str) -> Iterator[None]:
    with mpl.rc_context(), warnings.catch_warnings():
        mpl.rcdefaults()  # ignore the user's matplotlibrc
        mpl.rcParams.update({**STYLE, "svg.hashsalt": salt})
        # a PNG shows boxes for letters its font lacks; the page uses the browser's fonts
        warnings.filterwarnings("ignore", r"Glyph .* missing from font")
        yield
