"""Markdown of agents: rendered, and never more than text."""

from __future__ import annotations

import pytest

from mcp_bench.bridge.viewer.prose import prose
from tests.support.pages.html_page import parse
from tests.support.pages.viewer import EVIL

pytestmark = pytest.mark.unit


def test_markdown_is_rendered() -> None:
    html = prose(
        "# Plan\n\n1. **look**\n2. `act`\n\n| a | b |\n|--:|---|\n| 1 | 2 |\n\n```python\nx < 1\n```"
    )
    page = parse(f"<div>{html}</div>")
    assert [one.tag for one in page.all() if one.tag in ("p", "ol", "strong", "code", "table", "pre")] == [
        "p", "ol", "strong", "code", "table", "p", "pre", "code",
    ]  # fmt: skip
    assert "python x < 1" in page.text  # the language, above the code


def test_line_breaks_stay() -> None:
    assert prose("one\ntwo").count("<br") == 1


@pytest.mark.parametrize(
    "text",
    [
        EVIL,
        f"# {EVIL}\n\n> {EVIL}\n\n```{EVIL}\n{EVIL}\n```",
        f"| {EVIL} |\n|:-:|\n| {EVIL} |",
        "[a](javascript:alert(1)) <javascript:alert(1)> ![x](http://evil.example/x.png)",
        "<http://evil.example> [b][c]\n\n[c]: http://evil.example 'title'",
        "<style>body{}</style>\n\n<div onclick=x>",
    ],
)
def test_nothing_runs_loads_or_leads_away(text: str) -> None:
    html = prose(text)
    for element in parse(f"<div>{html}</div>").all():
        assert element.tag not in ("a", "img", "script", "style", "h1")
        assert set(element.attributes) <= {"class"}
    assert "\u202e" not in html
    assert "\x1b" not in html


@pytest.mark.parametrize(
    "text",
    [
        ">" * 30 + " hidden",
        "- " * 30 + "hidden",
        "| a |\n|---|\n| shown | hidden |",
        "``` and hidden\ncode\n```",
        "~~~hidden\n~~~",
    ],
)
def test_no_word_vanishes(text: str) -> None:
    """What Markdown would leave out is shown as it was written."""
    assert "hidden" in parse(f"<div>{prose(text)}</div>").text


@pytest.mark.parametrize(
    "text", ["3. three\n4. four\n\n   1) one", "a\\*b\\* `c` **d**", "| a | b |\n|---|---|\n| c |"]
)
def test_markup_alone_is_no_word(text: str) -> None:
    assert "<ol" in prose(text) or "<strong" in prose(text) or "<table" in prose(text)
