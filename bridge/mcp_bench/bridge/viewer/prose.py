"""What agents and users said, with its Markdown rendered: headings, lists, tables, emphasis and code.

The text is untrusted. HTML in it stays text, links and images stay as they were written, so a page loads and
leads nowhere because of them, and nothing gets a style or an address of its own. No word of it vanishes: a
text of which Markdown would leave something out is shown as it was written.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from html import unescape

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from markupsafe import Markup, escape

from mcp_bench.servers.terminal.sanitize import sanitize

MOST = 40_000
"""Characters that are rendered. A longer text is shown as it was written."""
_TAG = re.compile("<[^>]*>")


def prose(text: str) -> Markup:
    """Return a text as HTML."""
    clean, parser = sanitize(text), _parser()
    tokens = parser.parse(clean)
    made = parser.renderer.render(tokens, parser.options, {})
    numbers = "".join(token.info for token in tokens if token.type == "list_item_open")  # the browser's
    if _letters(clean) - _letters(unescape(_TAG.sub("", made)) + numbers):
        return Markup('<div class="prose">{}</div>').format(clean)
    return Markup(made)  # noqa: S704 - the parser escapes HTML


def _letters(text: str) -> Counter[str]:
    return Counter(filter(str.isalnum, text))


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "breaks": True}).enable("table")
    parser.disable(["link", "image", "autolink", "reference", "html_block", "html_inline"])
    parser.core.ruler.push("plain_tags", _plain_tags)
    return parser


def _plain_tags(state: StateCore) -> None:
    """Make headings no headings of the page, name the language above code, and take the styles of cells."""
    made: list[Token] = []
    for token in state.tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = "p"
            if token.nesting == 1:
                token.attrs = {"class": "label"}
        elif token.type == "fence" and token.info.strip():
            label = f'<p class="label">{escape(token.info.strip())}</p>\n'
            made.append(Token("html_block", "", 0, content=label))
            token.info = ""
        elif "style" in token.attrs:
            del token.attrs["style"]
        made.append(token)
    state.tokens = made
