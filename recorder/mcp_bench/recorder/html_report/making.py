"""Assemble the sections of a page from recordings, a comparison and a loop."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from mcp_bench.recorder.html_report.compared import compared
from mcp_bench.recorder.html_report.linked import linked
from mcp_bench.recorder.html_report.page import write_page
from mcp_bench.recorder.html_report.recordings import about, recorded
from mcp_bench.recorder.html_report.sections import Section
from mcp_bench.recorder.runs.reader import StoredEpisode
from mcp_bench.recorder.scores.totals import finished
from mcp_bench.servers.errors import MissingDependencyError, UnknownNameError
from mcp_bench.servers.extras import TRAINER, install_trainer
from mcp_bench.servers.registry import load


def kept(episodes: Iterable[StoredEpisode]) -> list[StoredEpisode]:
    """Return the ended episodes without their long texts, so that all of them fit in memory."""
    return [replace(episode, prompt="", answer=None) for episode in episodes if finished(episode)]


def sections_of_loop(folder: Path) -> Sequence[Section]:
    """Return the trainer's sections about a loop, or a run that learned from reward.

    They are the entry points `loop` and `rl` of `mcp_bench.report_sections`.

    Raises:
        MissingDependencyError: the trainer is not installed.
        WrongUseError: the folder has no loop.
    """
    try:
        read = load("report_section", "rl" if (folder / "settings.json").is_file() else "loop")
    except UnknownNameError as error:
        raise MissingDependencyError(f"--loop needs {TRAINER}. Install it: {install_trainer()}") from error
    sections: Sequence[Section] = read(folder)
    return sections


def make_page(
    path: Path,
    episodes: Sequence[StoredEpisode],
    by: Sequence[str],
    comparison: dict[str, Any] | None,
    loop: Path | None,
    loop_sections: Sequence[Section],
    notes: Sequence[str],
    viewer: str | None,
) -> list[Path]:
    """Write a page with the sections that apply: loop, comparison, recordings. Return the PNG files.

    `notes` are lines below the title. `viewer` is where links to the recordings lead, as `linked` takes it.

    Raises:
        WrongUseError: `viewer` is a folder without static pages.
    """
    sections = [*loop_sections, *([compared(comparison)] if comparison else [])]
    lines = [f"In {loop.absolute()}"] if loop else []
    if episodes or not sections:
        sections += recorded(episodes, by)
        lines += [about(episodes), *notes]
    if viewer and episodes:
        sections.append(linked(episodes, viewer, path))
    lines.append(f"mcp-bench {version('mcp-bench-kit')}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC")
    title = f"Loop {loop.absolute().name}" if loop else "Scores of recordings"
    return write_page(path, title, lines, sections)
