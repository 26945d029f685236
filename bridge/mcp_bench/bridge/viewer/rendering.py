"""The templates: every value is escaped, and characters that hide or reorder text are written out."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from jinja2 import Environment
from markupsafe import Markup, escape

from mcp_bench.bridge.viewer.links import Links
from mcp_bench.bridge.viewer.prose import MOST as MOST_PROSE
from mcp_bench.bridge.viewer.prose import prose
from mcp_bench.bridge.viewer.training.facts import listed
from mcp_bench.bridge.viewer.training.facts import number as finite
from mcp_bench.bridge.viewer.words import verdict
from mcp_bench.recorder.html_report.palette import DARK, LIGHT
from mcp_bench.recorder.html_report.templating import make_environment
from mcp_bench.recorder.utc import utc
from mcp_bench.servers.terminal.sanitize import sanitize

NOTHING = "-"
MOST = 1_000
"""Characters of a value that a page shows, such as a name: an agent may call a tool by a megabyte."""


def render(template: str, links: Links, **values: Any) -> str:
    """Return a page."""
    return environment().get_template(f"{template}.html.jinja").render(to=links, **values)


def style() -> str:
    """Return the style sheet, with the colours of the report."""
    return environment().get_template("view.css.jinja").render(light=LIGHT, dark=DARK)


@lru_cache(maxsize=1)
def environment() -> Environment:
    made = make_environment(__package__, shortened)
    made.globals["most_prose"] = MOST_PROSE
    made.filters.update(
        moment=moment,
        clock=clock,
        duration=duration,
        score=score,
        number=number,
        size=size,
        percent=percent,
        compact=compact,
        prose=prose,
        verdict=verdict,
        long_text=long_text,
        listed=listed,
    )
    return made


def shortened(text: str) -> str:
    """Return what a page shows of a value, unless the template says that it is a long text."""
    return sanitize(text if len(text) <= MOST else f"{text[:MOST]}…")


def long_text(text: str) -> Markup:
    """Return what a page shows of a message, a note or a whole error."""
    return escape(sanitize(text if len(text) <= MOST_PROSE else f"{text[:MOST_PROSE]}…"))


def moment(microseconds: int | None) -> str:
    return NOTHING if microseconds is None else utc(microseconds, "%Y-%m-%d %H:%M")


def clock(microseconds: int) -> str:
    """Return a time since the start of an episode."""
    seconds = microseconds / 1e6
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{int(seconds // 60)}:{int(seconds % 60):02d}"


def duration(milliseconds: float | None) -> str:
    if milliseconds is None:
        return NOTHING
    if milliseconds < 1:
        return "<1 ms"
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1000
    return f"{seconds:.1f} s" if seconds < 120 else f"{seconds / 60:.1f} min"


# what is no number can come from a file of others, and says as little as none


def score(value: object, signed: bool = False) -> str:
    if (found := finite(value)) is None:
        return NOTHING
    return f"{found:+.2f}" if signed else f"{found:.2f}"


def percent(value: object) -> str:
    return NOTHING if (found := finite(value)) is None else f"{100 * found:.0f} %"


def number(value: object) -> str:
    return NOTHING if finite(value) is None else f"{value:,}"


def compact(value: object) -> str:
    """Return a measured number with three digits that count."""
    if (found := finite(value)) is None:
        return NOTHING
    return f"{found:,.0f}" if abs(found) >= 1000 else f"{found:.3g}"


def size(count: int, unit: str = "characters") -> str:
    if count < 1000:
        return f"{count} {unit}"
    return f"{count / 1000:.0f} kB" if count < 1_000_000 else f"{count / 1e6:.1f} MB"
