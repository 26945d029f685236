"""Importers of other tools' trajectories. Entry points of the group `mcp_bench.importers` name a class
without arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from mcp_bench.recorder.importers.attempt import Attempt


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a file. `where` says which (`line 3`); `attempts` reads it, and may raise anything that
    reading data of another shape than expected raises."""

    where: str
    attempts: Callable[[], Iterable[Attempt]]


class Importer(Protocol):
    name: str
    summary: str
    """One line for listings."""
    patterns: tuple[str, ...]
    """Which files of a folder it reads, as for `Path.rglob`."""

    def recognises(self, path: Path) -> bool:
        """Say whether the file is of this format for sure."""
        ...

    def rows(self, path: Path) -> Iterator[Row]:
        """Yield the rows of a file.

        Raises:
            RowError: it is no file of this format at all.
            OSError: it cannot be read.
        """
        ...
