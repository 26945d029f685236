"""Lines of a file, counted as grep, sed and compilers count them."""

from __future__ import annotations

import re

_LINE = re.compile(r"[^\n]*\n|[^\n]+")


def lines_of(text: str) -> list[str]:
    """Return the lines of a text with their ends. Only a newline ends one.

    `str.splitlines` also ends lines at form feeds and U+2028, so its numbers are not those of other tools.
    """
    return _LINE.findall(text)
