"""Export formats. Entry points of the group `mcp_bench.formats` name a class without arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from mcp_bench.recorder.trajectory import Trajectory

Column = Literal["string", "int", "float", "bool", "json", "json list"]
"""What a key of the rows holds, for files that need a type: `json list` is a list of anything."""


class Format(Protocol):
    """One line of JSON, or one row of a Parquet file, for each trajectory, whatever came before it: large
    exports are made by several processes, each with a pickled copy."""

    name: str
    summary: str
    """One line for listings."""
    suffix: str
    """Usual ending of its files, dot included."""
    columns: Mapping[str, Column]
    """Every key that a row may have, in order. A key without a value may be missing."""

    def row(self, trajectory: Trajectory) -> dict[str, Any]:
        """Return one training example; everything in it is JSON."""
        ...


@runtime_checkable
class HasCompanions(Protocol):
    """A format whose readers want more files beside the data."""

    def companions(self, folder: Path, stem: str, files: Sequence[Path]) -> dict[str, str]:
        """Return the texts of other files to write to `folder`, by name; `files` are those of the data set,
        `stem` is its name."""
        ...
