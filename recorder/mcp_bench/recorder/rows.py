"""What becomes a row of an export: an episode, a pair of attempts, or a call."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from mcp_bench.recorder.containers.layout import Layout
from mcp_bench.recorder.curation.candidate import Candidate
from mcp_bench.recorder.curation.pipeline import Curation
from mcp_bench.recorder.formats import Column, Format, HasCompanions
from mcp_bench.recorder.reader import StoredEpisode
from mcp_bench.recorder.trajectory import Trajectory

Note = Callable[[StoredEpisode, Trajectory], None]
"""Is told of each episode of which a row is made, before the row is."""


class Rows(Protocol):
    name: str
    """What the manifest calls the format."""
    columns: Mapping[str, Column]

    def count(self, chosen: Sequence[Candidate]) -> int | None:
        """Return how many rows there will be; None where only making them tells."""
        ...

    def rows(
        self, curation: Curation, chosen: Sequence[Candidate], note: Note
    ) -> Generator[dict[str, Any]]: ...

    def companions(self, where: Layout, files: Sequence[Path]) -> dict[str, str]:
        """Return the texts of other files that readers of these rows want beside them, by name."""
        ...

    def facts(self) -> dict[str, Any]:
        """Return what the manifest says of the rows that were made, beside the funnel."""
        ...


class Episodes:
    """A row for each episode, in a format."""

    def __init__(self, form: Format) -> None:
        self.form = form
        self.name = form.name
        self.columns: Mapping[str, Column] = getattr(form, "columns", {})

    def count(self, chosen: Sequence[Candidate]) -> int:
        return len(chosen)

    def rows(self, curation: Curation, chosen: Sequence[Candidate], note: Note) -> Generator[dict[str, Any]]:
        for _, episode, conversation in curation.read(chosen):
            note(episode, conversation)
            yield self.form.row(conversation)

    def companions(self, where: Layout, files: Sequence[Path]) -> dict[str, str]:
        if isinstance(self.form, HasCompanions):
            return self.form.companions(where.folder, where.stem, files)
        return {}

    def facts(self) -> dict[str, Any]:
        return {}
