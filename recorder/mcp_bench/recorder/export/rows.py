"""What becomes a row of an export: an episode, a pair of attempts, or a call."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from mcp_bench.recorder.curation.candidate import Candidate
from mcp_bench.recorder.curation.pipeline import Curation
from mcp_bench.recorder.files.layout import Layout
from mcp_bench.recorder.files.writing import Encode
from mcp_bench.recorder.formats import Column, Format, HasCompanions
from mcp_bench.recorder.leakage.split_index import Leak
from mcp_bench.recorder.store.reader import StoredEpisode
from mcp_bench.recorder.trajectory import Trajectory

Note = Callable[[StoredEpisode, Leak | None], None]
"""Is told of each episode of which a row is made, before the row is, and of what it leaks."""


class Rows(Protocol):
    name: str
    """What the manifest calls the format."""
    columns: Mapping[str, Column]

    def count(self, chosen: Sequence[Candidate]) -> int | None:
        """Return how many rows there will be; None where only making them tells."""
        ...

    def rows(
        self, curation: Curation, chosen: Sequence[Candidate], note: Note, encode: Encode
    ) -> Generator[Any]:
        """Yield the rows as `encode` makes them."""
        ...

    def companions(self, where: Layout, files: Sequence[Path]) -> dict[str, str]:
        """Return the texts of other files that readers of these rows want beside them, by name."""
        ...

    def facts(self) -> dict[str, Any]:
        """Return what the manifest says of the rows that were made, beside the funnel."""
        ...


@dataclass(frozen=True, slots=True)
class _Row:
    form: Format
    encode: Encode

    def __call__(
        self, curation: Curation, episode: StoredEpisode, conversation: Trajectory
    ) -> tuple[StoredEpisode, Leak | None, Any]:
        leak = curation.guard.leak(episode, conversation)
        return episode, leak, self.encode(self.form.row(conversation))


class Episodes:
    """A row for each episode, in a format."""

    def __init__(self, form: Format) -> None:
        self.form = form
        self.name = form.name
        self.columns: Mapping[str, Column] = getattr(form, "columns", {})

    def count(self, chosen: Sequence[Candidate]) -> int:
        return len(chosen)

    def rows(
        self, curation: Curation, chosen: Sequence[Candidate], note: Note, encode: Encode
    ) -> Generator[Any]:
        with closing(curation.each(chosen, _Row(self.form, encode))) as made:
            for episode, leak, row in made:
                note(episode, leak)
                yield row

    def companions(self, where: Layout, files: Sequence[Path]) -> dict[str, str]:
        if isinstance(self.form, HasCompanions):
            return self.form.companions(where.folder, where.stem, files)
        return {}

    def facts(self) -> dict[str, Any]:
        return {}
