"""The pages of data sets: what an export took, what it left out and why, row by row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse

from mcp_bench.bridge.viewer.links import query_number
from mcp_bench.bridge.viewer.pages.run_pages import page_of
from mcp_bench.bridge.viewer.recordings import Library
from mcp_bench.bridge.viewer.training.exports import KEPT, Export
from mcp_bench.bridge.viewer.training.folders import Found, TrainingFiles, data_files, manifest_of
from mcp_bench.bridge.viewer.trees import draw_value
from mcp_bench.recorder.errors import StorageError
from mcp_bench.recorder.runs.reader import StoredEpisode

ROWS_ON_A_PAGE = 200


class DataPages:
    """Handlers of these pages."""

    def __init__(self, library: Library, files: TrainingFiles) -> None:
        self._library = library
        self._files = files

    def data(self, _: Request) -> HTMLResponse:
        """All data sets that exports wrote, newest first."""
        rows = []
        for found in self._files.all():
            if found.kind == "data":
                with suppress(LookupError):
                    rows.append((found, Export(found.path)))
        return page_of("data", rows=rows)

    def export(self, request: Request) -> HTMLResponse:
        """A data set: what its selection kept and left out, and each episode with the reason."""
        found, export = self._export(request)
        members = export.members()
        counts = Counter(one.rule for one in members)
        rule = request.query_params.get("rule", "")
        words = request.query_params.get("q", "").strip()
        known = self._known([*export.runs, *(one.run for one in members if one.run)])
        shown = [
            one
            for one in members
            if (not rule or one.rule == rule) and _has(words, one.episode, known.get(one.episode))
        ]
        page = query_number(request, "page")
        part = shown[page * ROWS_ON_A_PAGE : (page + 1) * ROWS_ON_A_PAGE]
        return page_of(
            "export",
            found=found,
            export=export,
            counts=counts,
            rule=rule,
            q=words,
            page=page,
            size=ROWS_ON_A_PAGE,
            total=len(shown),
            kept=KEPT,
            rows=[(one, known.get(one.episode)) for one in part],
            cut_off=self._library.cut_off(known.values()),
            by_rows=len(export.episodes) == export.rows,
            first=page * ROWS_ON_A_PAGE + 1 if rule in ("", KEPT) and not words else 0,
            users=[one for one in self._files.all() if found.path in map(manifest_of, data_files(one))],
        )

    def row(self, request: Request) -> HTMLResponse:
        """A row of a data set, as it stands in the file."""
        found, export = self._export(request)
        number = request.path_params["number"]
        try:
            row = export.row(number)
        except LookupError as error:
            raise HTTPException(404, str(error)) from None
        episode = row.get("id") if isinstance(row, dict) else None
        known = self._known(list(export.runs)) if isinstance(episode, str) else {}
        return page_of(
            "row",
            found=found,
            export=export,
            number=number,
            row=draw_value(row),
            episode=known.get(str(episode)),
        )

    def _export(self, request: Request) -> tuple[Found, Export]:
        try:
            found = self._files.find(request.path_params["key"])
            return found, Export(found.path)
        except LookupError:
            raise HTTPException(404, "There is no such data set, or it was moved.") from None

    def _known(self, runs: Sequence[str]) -> dict[str, StoredEpisode]:
        found: dict[str, StoredEpisode] = {}
        for run in dict.fromkeys(runs):
            with suppress(KeyError, StorageError):
                found |= {one.id: one for one in self._library.episodes(self._library.path(run))}
        return found


def _has(words: str, name: str, episode: StoredEpisode | None) -> bool:
    """Return whether all words are in what the page shows of an episode."""
    if not words:
        return True
    text = name
    if episode is not None:
        text = f"{name} {episode.task} {episode.agent} {episode.model} {episode.split}"
    return all(word in text.lower() for word in words.lower().split())
