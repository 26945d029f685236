"""The section that leads from figures to recordings: links into `mcp-bench view` or its static pages."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from mcp_bench.recorder.html_report.sections import Cell, Link, Score, Section, Table, counted
from mcp_bench.recorder.store.reader import StoredEpisode


def linked(episodes: Sequence[StoredEpisode], viewer: str) -> Section:
    """Return a section with a link to each run and episode, the worst episodes first.

    Args:
        episodes: what the page is about.
        viewer: the address of a viewer (`http://...`), or the folder of static pages as the page's readers
            reach it, such as `pages`.
    """
    runs: dict[str, list[StoredEpisode]] = {}
    for episode in episodes:
        runs.setdefault(episode.run, []).append(episode)
    run_rows: list[list[Cell]] = [
        [Link(run, _address(viewer, run)), found[0].agent, found[0].model, found[0].benchmark, len(found)]
        for run, found in runs.items()
    ]
    worst = sorted(episodes, key=lambda one: (one.invalid is not None, one.partial or 0.0, one.task))
    rows: list[list[Cell]] = [
        [
            Link(one.task, _address(viewer, one.run, one.id)), one.agent, one.model, one.split,
            one.invalid and f"invalid: {one.invalid}", Score(None if one.invalid else one.partial),
        ]
        for one in worst
    ]  # fmt: skip
    tables = [
        Table("Runs", ["run", "agent", "model", "benchmark", "episodes"], run_rows),
        Table("Episodes, the worst first", ["task", "agent", "model", "split", "", "partial"], rows),
    ]
    words = f"{counted(len(runs), 'run')} and {counted(len(rows), 'episode')} to read."
    return Section("Recordings", [words], tables=tables)


def _address(viewer: str, run: str, episode: str = "") -> str:
    base = viewer.rstrip("/")
    if viewer.startswith(("http://", "https://")):
        return "/".join([base, "runs", *(quote(part, safe="") for part in (run, episode) if part)])
    kind, name = ("episodes", episode) if episode else ("runs", run)
    return f"{quote(base)}/{kind}/{quote(name, safe='')}.html"
