"""Export formats. Entry points of the group `mcp_bench.formats` name a class without arguments."""

from __future__ import annotations

from typing import Any, Protocol

from mcp_bench.recorder.trajectory import Trajectory


class Format(Protocol):
    """One line of JSON for each trajectory."""

    name: str
    summary: str
    """One line for listings."""
    suffix: str
    """Usual ending of its files, dot included."""

    def row(self, trajectory: Trajectory) -> dict[str, Any]:
        """Return one training example; everything in it is JSON."""
        ...
