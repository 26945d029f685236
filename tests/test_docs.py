"""What the documentation says works: `console` blocks are run, other command lines are parsed."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from mcp_bench.bridge.cli.root import root
from tests.support import ROOT

pytestmark = pytest.mark.system

PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


def commands(page: Path, language: str, prompt: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the page's mcp-bench commands, each with the lines that the page shows below it."""
    for block in blocks(page, language):
        found: list[tuple[str, list[str]]] = []
        for line in block.replace("\\\n", " ").splitlines():
            if line.startswith(prompt):
                found.append((re.split(r"  +#| > ", line.removeprefix(prompt))[0], []))
            elif found:
                found[-1][1].append(line)
        yield from ((line, shown) for line, shown in found if line.startswith("mcp-bench "))


def steady(text: str) -> list[str]:
    """Return lines without what differs from run to run or between machines: ids, times, isolation, spacing."""
    text = re.sub(r"\b(run|ep)_\w+", r"\1_ID", text)
    text = re.sub(r"\b[0-9.]+ s\b", "SECONDS s", text)
    text = re.sub(r"\b[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8}\b", "MOMENT", text)
    text = re.sub(r"\b(uid|bwrap|landlock|none)\b( +[0-9]+/)?", "LEVEL", text)
    text = re.sub(r"LEVEL, [0-9]+ probes", "LEVEL, PROBES", text)
    return [" ".join(line.split()) for line in text.splitlines()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_console_blocks_work_and_print_what_they_show(page: Path, tmp_path: Path) -> None:
    """Commands run in the page's order, in one folder: later ones use what earlier ones made."""
    for line, shown in commands(page, "console", "$ "):
        argv = [sys.executable, "-m", "mcp_bench.bridge.cli.root", *shlex.split(line)[1:]]
        done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=300)
        # dropping calls makes imperfect attempts, never invalid ones: everything shown ends with 0
        assert done.returncode == 0, (line, done.stdout, done.stderr)
        assert done.stdout or done.stderr, line
        printed = steady(done.stderr + done.stdout)
        for expected in steady("\n".join(shown)):
            if expected and expected != "...":
                assert expected in printed, (line, expected, printed)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)", page.read_text()):
        name, _, anchor = target.partition("#")
        if "://" in target:
            continue
        linked = page.parent / name if name else page
        assert linked.exists(), target
        if anchor and linked.suffix == ".md":
            assert anchor in anchors(linked), (target, sorted(anchors(linked)))
