"""Word lists for names: one text file per field of `Pools`, with one word per line.

Each list has two disjoint halves. The tasks depend on the order of the words: changing it changes every task
and requires a new version of the benchmark.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple


class Pools(NamedTuple):
    """The words of one half."""

    first_names: tuple[str, ...]
    last_names: tuple[str, ...]
    company_stems: tuple[str, ...]
    company_kinds: tuple[str, ...]
    cities: tuple[str, ...]
    streets: tuple[str, ...]
    product_lines: tuple[str, ...]
    product_kinds: tuple[str, ...]
    projects: tuple[str, ...]


@cache
def pools(half: int) -> Pools:
    """Return the words of half 0 or half 1."""
    folder = Path(__file__).parent
    lists = ((folder / f"{name}.txt").read_text("utf-8").splitlines() for name in Pools._fields)
    return Pools(*(tuple(words[half::2]) for words in lists))
