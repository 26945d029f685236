"""Progress of work that is measured in bytes: a live line on a terminal, occasional lines elsewhere."""

from __future__ import annotations

import sys
import time

import click

QUIET_SECONDS = 15.0


class ByteProgress:
    """Shows what is being done, on stderr."""

    def __init__(self) -> None:
        self._live = sys.stderr.isatty()
        self._word = ""
        self._shown = 0.0

    def show(self, word: str, done: int, total: int) -> None:
        """Show the bytes done, and all of them; only the word if both are 0."""
        now = time.monotonic()
        if self._live or word != self._word or now - self._shown >= QUIET_SECONDS:
            self._word, self._shown = word, now
            text = f"{word} {done / 1e6:,.0f} of {total / 1e6:,.0f} MB" if total else word
            click.echo(f"\r\x1b[2K{text}" if self._live else text, err=True, nl=not self._live)

    def close(self) -> None:
        """End the live line."""
        if self._live and self._word:
            click.echo(err=True)
