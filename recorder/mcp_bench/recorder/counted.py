"""Numbers with their nouns, in texts for people."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: `1 task`, `2 tasks`, `1,000 tasks`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
