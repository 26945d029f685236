"""Text for a terminal: wrapped to its width, and long texts cut to some lines with a note."""

from __future__ import annotations

import sys

from rich.cells import chop_cells
from rich.console import Console
from rich.text import Text

from mcp_bench.servers.terminal.sanitize import sanitize

NARROWEST = 20
PIPE_COLUMNS = 100
"""In a file or pipe lines are not wrapped; so many characters count as one line."""
_LONG = 4000
"""Longer lines are data: they are cut at any character, which is much faster than between words."""
_SLACK = 2
"""Lines that are shown rather than a note that they are hidden."""


class Folding:
    """How texts are shown on this terminal, or in this file or pipe."""

    def __init__(self, *, full: bool) -> None:
        """Use the terminal's width. `full` cuts nothing."""
        self.full = full
        self._console = Console()
        self._wraps = sys.stdout.isatty()

    def lines(self, text: str, most: int, indent: int) -> tuple[list[str], str]:
        """Return the lines of a text, sanitized, and a note on what is hidden (empty if nothing is).

        Args:
            text: any text, as from an agent.
            most: number of lines to which a long text is cut.
            indent: columns that the caller puts before each line, so that none begins at the left edge.
        """
        columns = max(self._console.width - indent, NARROWEST) if self._wraps else PIPE_COLUMNS
        text = sanitize(text).expandtabs(4)
        room = (most + _SLACK) * columns
        if self.full or len(text) <= room:
            found = self._screen_lines(text, columns)
            if self.full or len(found) <= most + _SLACK:
                return found, ""
        kept = self._screen_lines(text[: most * columns], columns)[:most]
        shown = sum(map(len, kept)) + len(kept)  # roughly: spaces at the ends of wrapped lines are gone
        lines = text.count("\n") + 1
        within = f" of {lines:,} lines" if lines > 1 else ""
        return kept, f"... {max(len(text) - shown, 1):,} more characters{within} (--full shows all)"

    def _screen_lines(self, text: str, columns: int) -> list[str]:
        if not self._wraps:
            return text.split("\n")
        found: list[str] = []
        for line in text.split("\n"):
            if len(line) > _LONG:
                found += chop_cells(line, columns)
            else:
                found += [part.plain.rstrip() for part in Text(line).wrap(self._console, columns)] or [""]
        return found
