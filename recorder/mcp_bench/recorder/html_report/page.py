"""Write sections as one self-contained HTML file, and its charts as PNG files in a folder beside it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_bench.recorder.atomic_file import write_atomic
from mcp_bench.recorder.html_report.palette import DARK, LIGHT
from mcp_bench.recorder.html_report.sections import MOST_ROWS, Cell, Chart, Link, Score, Section
from mcp_bench.servers.errors import BenchError, MissingDependencyError, WrongUseError
from mcp_bench.servers.extras import install_extra
from mcp_bench.servers.terminal.sanitize import sanitize_line

if TYPE_CHECKING:
    from jinja2 import Environment

NOTHING = "-"
MOST_LINES = 1000
"""Maximum rows of a table. A note below the table counts the rest."""


def check(path: Path) -> None:
    """Check that a page can be written, before reading any data for it.

    Raises:
        MissingDependencyError: matplotlib or Jinja2 is not installed.
        WrongUseError: the file name does not end with .html or .htm.
    """
    if path.suffix.lower() not in {".html", ".htm"}:
        raise WrongUseError(f"--html {path}: the file name must end with .html")
    for name in ("jinja2", "matplotlib"):
        try:
            import_module(name)
        except ModuleNotFoundError as error:
            raise MissingDependencyError(
                f"--html needs the Python package {name}: {install_extra('report')}"
            ) from error


def write_page(path: Path, title: str, about: Sequence[str], sections: Sequence[Section]) -> list[Path]:
    """Write the page and its PNG files, replacing those of an earlier page. Return the PNG paths.

    The PNG files of `report.html` are in `report-png/`.

    Args:
        path: the HTML file.
        title: the page's title.
        about: lines below the title.
        sections: the content.

    Raises:
        BenchError: the files cannot be written.
    """
    from mcp_bench.recorder.html_report.drawing import png, svg

    names = _names(sections)
    text = (
        _environment()
        .get_template("page.html.jinja")
        .render(title=title, about=about, sections=sections, names=names, svg=svg, light=LIGHT, dark=DARK)
    )
    folder = path.with_name(f"{path.stem}-png")
    pictures = {
        folder / f"{names[id(chart)]}.png": png(chart) for section in sections for chart in section.charts
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if pictures:
            folder.mkdir(exist_ok=True)
            _remove_older(folder)
        for picture, content in pictures.items():
            picture.write_bytes(content)
        write_atomic(path, text)
    except OSError as error:
        raise BenchError(f"cannot write {error.filename or path}: {error.strerror}") from error
    return list(pictures)


def _remove_older(folder: Path) -> None:
    """Remove the PNG files of an earlier page. Files that mcp-bench did not write are kept."""
    for path in folder.glob("*.png"):
        with path.open("rb") as file:
            ours = b"tEXtSoftware\0mcp-bench" in file.read(256)  # precedes the image data
        if ours:
            path.unlink()


def _names(sections: Sequence[Section]) -> dict[int, str]:
    """Return a unique name for each chart, by `id(chart)`, for its file and its element ids."""
    found: dict[int, str] = {}
    taken: set[str] = set()
    for chart in (chart for section in sections for chart in section.charts):
        plain = re.sub(r"[^a-z0-9]+", "-", chart.name.lower()).strip("-")[:60].rstrip("-") or "chart"
        name, more = plain, 1
        while name in taken:
            more += 1
            name = f"{plain}-{more}"
        taken.add(name)
        found[id(chart)] = name
    return found


def _environment() -> Environment:
    from markupsafe import Markup

    from mcp_bench.recorder.html_report.templating import make_environment

    environment = make_environment(__package__, sanitize_line)
    environment.filters["cell"] = cell
    environment.filters["drawn"] = Markup
    environment.filters["id"] = id
    environment.tests["link"] = lambda value: isinstance(value, Link)
    environment.tests["figure"] = lambda value: not isinstance(value, str)
    environment.filters["rows_left_out"] = _rows_left_out
    environment.globals.update(most_lines=MOST_LINES, most_rows=MOST_ROWS)
    return environment


def _rows_left_out(chart: Chart) -> int:
    return max(0, len(getattr(chart, "rows", ())) - MOST_ROWS)


def cell(value: Cell) -> str:
    """Return the text of a table cell: three decimals as on the terminal, a dash for None."""
    match value:
        case None:
            return NOTHING
        case str():
            return value
        case int():
            return f"{value:,}"
        case float():
            return f"{value:.3f}"
        case Score():
            return _score(value)


def _score(score: Score) -> str:
    if score.value is None:
        return NOTHING
    sign = "+" if score.signed else ""

    def shown(number: Any) -> str:
        return f"{number:{sign}.3f}"

    interval = score.interval
    return shown(score.value) + (f" [{shown(interval[0])}, {shown(interval[1])}]" if interval else "")
