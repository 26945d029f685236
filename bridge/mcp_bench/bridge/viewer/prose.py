"""What agents and users said, with its Markdown rendered: headings, lists, tables, emphasis and code.

The text is untrusted. HTML in it stays text, links and images stay as they were written, so a page loads and
leads nowhere because of them, and nothing gets a style or an address of its own.
"""

from __future__ import annotations

from functools import lru_cache

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markupsafe import Markup

from mcp_bench.servers.sanitize import sanitize

MOST = 40_000
"""Characters that are rendered. A longer text is shown as it was written."""


def prose(text: str) -> Markup:
    """Return a text as HTML."""
    return Markup(_parser().render(sanitize(text)))  # noqa: S704 - the parser escapes HTML


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "breaks": True}).enable("table")
    parser.disable(["link", "image", "autolink", "reference", "html_block", "html_inline"])
    parser.core.ruler.push("plain_tags", _plain_tags)
    return parser


def _plain_tags(state: StateCore) -> None:
    """Make headings of a text no headings of the page, and take the styles of a table's cells."""
    for token in state.tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = "p"
            if token.nesting == 1:
                token.attrs = {"class": "label"}
        elif "style" in token.attrs:
            del token.attrs["style"]
