"""What the documentation says works: `console` blocks are run, other command lines are parsed."""

import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from mcp_bench.bridge.cli.root import root
from tests.support import ROOT
from tests.support.machines.plain_install import make
from tests.support.pages.console_blocks import commands, type_line
from tests.support.processes.forked import REAL

pytestmark = pytest.mark.system

PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])


def path_of(page: Path) -> str:
    """Return a page's path in the repository."""
    return str(page.relative_to(ROOT))


FIRST = ("README.md", "docs/index.md")
"""What a newcomer reads first."""


@pytest.fixture(scope="module")
def plain() -> Iterator[list[str]]:
    """The command `mcp-bench` as installed without extras, where an agent of another user can read it."""
    folder = Path(tempfile.mkdtemp(prefix="mcp-bench-plain-"))
    folder.chmod(0o755)
    yield [str(make(folder / "venv"))]
    shutil.rmtree(folder)


SLOW = {
    "docs/training/base-models.md": "the demo's test trains by the same commands",
    "docs/index.md": "README.md has the same first steps",
}
"""Pages whose commands only the full sweep types, and why."""


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.full] * (path_of(page) in SLOW), id=path_of(page))
        for page in PAGES
    ],
)
def test_console_blocks_work_and_print_what_they_show(page: Path, plain, tmp_path: Path) -> None:
    """Commands run in the page's order, in one folder: later ones use what earlier ones made.

    The first pages are typed where nothing but mcp-bench is installed.
    """
    program = plain if path_of(page) in FIRST else None
    # README's commands choose a level by themselves; without one, a recording takes half as long
    quick = {} if program or REAL else {"MCP_BENCH_ISOLATION": "none"}
    for line, shown in commands(page, "console", "$ "):
        type_line(line, shown, program, cwd=tmp_path, env={**os.environ, **quick})


@pytest.mark.parametrize("page", PAGES, ids=path_of)
def test_every_other_command_line_is_one_that_exists(page: Path) -> None:
    for line, _ in commands(page, "sh", ""):
        context = click.Context(root, info_name="mcp-bench")
        name, command, rest = root.resolve_command(context, shlex.split(line)[1:])
        assert command is not None
        command.make_context(name, list(rest), parent=context)


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    found: set[str] = set()
    for heading in re.findall(r"^#+ +(.+)$", text, re.MULTILINE):
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        number = next(n for n in range(len(found) + 1) if (f"{slug}-{n}" if n else slug) not in found)
        found.add(f"{slug}-{number}" if number else slug)
    return found


@pytest.mark.parametrize("page", PAGES, ids=path_of)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)", page.read_text()):
        name, _, anchor = target.partition("#")
        if "://" in target:
            continue
        linked = page.parent / name if name else page
        assert linked.exists(), target
        if anchor and linked.suffix == ".md":
            assert anchor in anchors(linked), (target, sorted(anchors(linked)))


def test_files_that_pages_name_exist() -> None:
    """Pages write `bridge/.../run/retry.py` for bridge/mcp_bench/bridge/run/retry.py."""
    for page in PAGES:
        for folder, rest in re.findall(r"`(\w+)/\.\.\./([\w/.]+)`", page.read_text(encoding="utf-8")):
            named = ROOT / folder / "mcp_bench" / folder / rest
            assert named.exists(), f"{path_of(page)}: {folder}/.../{rest}"


def test_the_index_leads_to_every_page() -> None:
    index = ROOT / "docs" / "index.md"
    linked = {index.parent / name for name in re.findall(r"\]\(([\w/-]+\.md)", index.read_text())}
    assert set((ROOT / "docs").rglob("*.md")) - linked == {index}
