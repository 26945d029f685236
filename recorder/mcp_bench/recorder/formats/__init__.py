"""Export formats. Entry points of the group `mcp_bench.formats` name a class that takes no arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from mcp_bench.recorder.trajectory import Trajectory

Column = Literal["string", "int", "float", "bool", "json", "json list"]
"""Type of a key of the rows, for files that need types. `json list` is a list of any JSON values."""


class Format(Protocol):
    """A format has one row for each trajectory: a line of JSON or a row of a Parquet file.

    A row must not depend on earlier ones. Several processes make large exports, each with a pickled copy.
    """

    name: str
    summary: str
    """One line for listings."""
    suffix: str
    """Usual file name ending, including the dot."""
    columns: Mapping[str, Column]
    """All keys of a row, in order. A row can leave out keys without a value."""

    def row(self, trajectory: Trajectory) -> dict[str, Any]:
        """Return a training example as JSON values."""
        ...


ImagesAs = Literal["text", "files", "base64"]
"""What rows have of an image in a tool's result: a text that names it, the name of a file beside the data, or
its data."""


@runtime_checkable
class HasImages(Protocol):
    """A format whose rows have more of an image than a text that names it."""

    images: ImagesAs


@runtime_checkable
class HasCompanions(Protocol):
    """A format whose readers need further files beside the data."""

    def companions(self, folder: Path, stem: str, files: Sequence[Path]) -> dict[str, str]:
        """Return the names and texts of further files.

        Args:
            folder: Folder of the data set.
            stem: Name of the data set.
            files: Files of the data set.
        """
        ...
