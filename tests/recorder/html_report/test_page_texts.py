"""No text that a page shows can change the page: names of agents, models and tasks are other people's."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mcp_bench.recorder.html_report.page import write_page
from mcp_bench.recorder.html_report.sections import (
    Chart,
    DotChart,
    Dots,
    Fact,
    FlipChart,
    Line,
    LineChart,
    Score,
    Section,
    Table,
)
from tests.support.pages.html_page import Element, parse

pytestmark = pytest.mark.system

HOSTILE = '</text></svg><script>alert(1)</script><b title="x">$\\frac{1}{2}$ & \u202e{{ 7*7 }} #0072b2 fill: #0072b2'


def charts(text: str) -> list[Chart]:
    table = Table(text, [text, "score"], [[text, Score(0.5, (0.25, 0.75))], [text, None]], note=text)
    scores = [Score(0.5, (0.25, 0.75), 0.4), Score(None)]
    common: dict[str, Any] = {"name": text, "title": text, "says": text, "table": table}
    return [
        DotChart(**common, rows=[(text, text)] * 2, series=[Dots(text, "partial", scores)]),
        FlipChart(**common, rows=[(text, text)] * 2, fixed=[1, 2], broken=[0, 3]),
        LineChart(
            **common, x_label=text, ticks={0: text, 1: text}, hollow_means=text,
            lines=[Line(text, "strict", [0, 1], scores, [0])],
        ),
    ]  # fmt: skip


def structure(element: Element) -> list[Any]:
    """Return the page's elements and attribute names, without classes and the content of drawings."""
    if element.tag == "svg":
        return [element.tag]
    below = [structure(child) for child in element.children if isinstance(child, Element)]
    return [element.tag, sorted(element.attributes.keys() - {"class"}), below]


def written(text: str) -> Element:
    """Return a page with `text` in every place for text."""
    table = Table(text, [text], [[text]])
    section = Section(text, [text], [Fact(text, text, text)], [table], charts(text))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "r.html"
        files = write_page(path, text, [text], [section])
        assert len({file.name for file in files}) == 3
        return parse(path.read_text(encoding="utf-8"))


@cache
def plain_structure() -> list[Any]:
    return structure(written("plain"))


@settings(max_examples=6, deadline=None)
@given(st.text(st.characters(), min_size=1, max_size=30))
@example(HOSTILE)
def test_no_text_changes_the_page(text: str) -> None:
    found = written(text)
    assert structure(found) == plain_structure()
    assert "\u202e" not in found.text
