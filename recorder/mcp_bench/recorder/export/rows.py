"""The kinds of rows of an export: an episode, a pair of attempts, or a call."""

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
from mcp_bench.recorder.formats import Column, Format, HasCompanions, HasImages, ImagesAs
from mcp_bench.recorder.formats.image_files import image_files
from mcp_bench.recorder.leakage.split_index import Leak
from mcp_bench.recorder.runs.reader import StoredEpisode
from mcp_bench.recorder.trajectory import Trajectory

Note = Callable[[StoredEpisode, Leak | None], None]
"""Called with each episode before its rows are made, and with its leak, if there is one."""

Beside = Callable[[str], Path]
"""Returns where to write a further file that is beside the data under this name when all is complete."""


class Rows(Protocol):
    name: str
    """Name of the format in the manifest."""
    columns: Mapping[str, Column]

    def count(self, chosen: Sequence[Candidate]) -> int | None:
        """Return the number of rows; by default None: it is not known before they are made."""
        return None

    def rows(
        self, curation: Curation, chosen: Sequence[Candidate], note: Note, encode: Encode, beside: Beside
    ) -> Generator[Any]:
        """Yield the encoded rows."""
        ...

    def companions(self, where: Layout, files: Sequence[Path]) -> dict[str, str]:
        """Return the names and texts of further files that readers of these rows need; by default none."""
        return {}

    def facts(self) -> dict[str, Any]:
        """Return further facts about the rows for the manifest."""
        ...

    def why_none(self) -> str:
        """Return why no row was made of the chosen episodes."""
        ...


@dataclass(frozen=True, slots=True)
class _Row:
    form: Format
    encode: Encode

    images: ImagesAs

    def __call__(
        self, curation: Curation, episode: StoredEpisode, conversation: Trajectory
    ) -> tuple[StoredEpisode, Leak | None, Any, int, dict[str, bytes]]:
        leak = curation.guard.leak(episode, conversation)
        [conversation] = curation.redacted(conversation)
        images = sum(len(message.images) for message in conversation.messages)
        files = image_files(conversation) if images and self.images == "files" else {}
        return episode, leak, self.encode(self.form.row(conversation)), images, files


class Episodes(Rows):
    """One row for each episode, in a given format."""

    def __init__(self, form: Format) -> None:
        self.form = form
        self.name = form.name
        self.columns: Mapping[str, Column] = getattr(form, "columns", {})
        self._images: ImagesAs = form.images if isinstance(form, HasImages) else "text"
        self._count = 0
        self._files: set[str] = set()
        self._redacted = False

    def count(self, chosen: Sequence[Candidate]) -> int:
        return len(chosen)

    def rows(
        self, curation: Curation, chosen: Sequence[Candidate], note: Note, encode: Encode, beside: Beside
    ) -> Generator[Any]:
        self._redacted = bool(curation.selection.redact)
        with closing(curation.each(chosen, _Row(self.form, encode, self._images))) as made:
            for episode, leak, row, images, files in made:
                note(episode, leak)
                self._count += images
                for name in files.keys() - self._files:
                    beside(name).write_bytes(files[name])
                    self._files.add(name)
                yield row

    def companions(self, where: Layout, files: Sequence[Path]) -> dict[str, str]:
        if isinstance(self.form, HasCompanions):
            return self.form.companions(where.folder, where.stem, files)
        return {}

    def facts(self) -> dict[str, Any]:
        """Return what became of the images in the results of tools, if there were any."""
        if not self._count:
            return {}
        found: dict[str, Any] = {"count": self._count, "as": self._images}
        if self._images == "files":
            found["files"] = sorted(self._files)
        if self._redacted and self._images != "text":
            found["redacted"] = False
        return {"images": found}

    def why_none(self) -> str:
        return "none was chosen"
