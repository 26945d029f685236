"""Make text from agents, tools and servers safe to show: it can contain terminal escapes."""

from __future__ import annotations

import re

# characters that reorder or hide text: bidi marks, zero width, fillers, tags
_HIDDEN = (
    r"\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164"
    r"\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_UNSAFE = re.compile(rf"[\x00-\x08\x0b-\x1f\x7f-\x9f{_HIDDEN}]")
_UNSAFE_IN_LINE = re.compile(rf"[\x00-\x1f\x7f-\x9f{_HIDDEN}]")


def sanitize(text: str) -> str:
    r"""Return `text` with control characters written out (`\x1b`), so a terminal does not execute them."""
    return _UNSAFE.sub(_spelled, text)


def sanitize_line(text: str) -> str:
    """Return `text` for use within a line, such as a table cell: also writes out line feeds and tabs."""
    return _UNSAFE_IN_LINE.sub(_spelled, text)


def _spelled(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")
