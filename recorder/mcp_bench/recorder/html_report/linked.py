"""The section that leads from figures to recordings: links into `mcp-bench view` or its static pages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from mcp_bench.recorder.counted import counted
from mcp_bench.recorder.html_report.sections import Cell, Link, Score, Section, Table
from mcp_bench.recorder.runs.reader import StoredEpisode
from mcp_bench.servers.errors import WrongUseError


def linked(episodes: Sequence[StoredEpisode], viewer: str, page: Path) -> Section:
    """Return a section with a link to each run and episode, the worst episodes first.

    Static pages leave some recordings out, such as private tasks. Those have no link.

    Args:
        episodes: what the page is about.
        viewer: the address of a viewer (`http://...`), or the folder of static pages as the page's readers
            reach it, such as `pages`.
        page: the file that the section is for. A folder is seen from there.

    Raises:
        WrongUseError: there are no static pages in the folder.
    """
    links = _Links(viewer, page)
    runs: dict[str, list[StoredEpisode]] = {}
    for episode in episodes:
        runs.setdefault(episode.run, []).append(episode)
    run_rows: list[list[Cell]] = [
        [links.to(run, run), found[0].agent, found[0].model, found[0].benchmark, len(found)]
        for run, found in runs.items()
    ]
    worst = sorted(episodes, key=lambda one: (one.invalid is not None, one.partial or 0.0, one.task))
    rows: list[list[Cell]] = [
        [
            links.to(one.task, one.run, one.id),
            one.agent,
            one.model,
            one.split,
            one.invalid and f"invalid: {one.invalid}",
            Score(None if one.invalid else one.partial),
        ]
        for one in worst
    ]
    tables = [
        Table("Runs", ["run", "agent", "model", "benchmark", "episodes"], run_rows),
        Table("Episodes, the worst first", ["task", "agent", "model", "split", "", "partial"], rows),
    ]
    words = [f"{counted(len(runs), 'run')} and {counted(len(rows), 'episode')} to read."]
    if missing := sum(not isinstance(row[0], Link) for row in rows):
        words.append(f"{counted(missing, 'episode')} without a link: not in the static pages.")
    return Section("Recordings", words, tables=tables)


class _Links:
    """Links into a viewer, or to those of its static pages that exist."""

    def __init__(self, viewer: str, page: Path) -> None:
        self._viewer = viewer.rstrip("/")
        self._pages: Path | None = None
        if not viewer.startswith(("http://", "https://")):
            self._pages = page.parent / viewer
            if not (self._pages / "index.html").is_file():
                raise WrongUseError(
                    f"--view-url {viewer}: there are no static pages in {self._pages}. Write them first: "
                    f"mcp-bench view --export {self._pages}"
                )

    def to(self, text: str, run: str, episode: str = "") -> Link | str:
        """Return a link to a run or an episode, or its text alone if there is no page."""
        if self._pages is None:
            parts = [quote(part, safe="") for part in (run, episode) if part]
            return Link(text, "/".join([self._viewer, "runs", *parts]))
        kind, name = ("episodes", f"{episode}.html") if episode else ("runs", f"{run}.html")
        if not (self._pages / kind / name).is_file():
            return text
        return Link(text, f"{quote(self._viewer)}/{kind}/{quote(name, safe='')}")
