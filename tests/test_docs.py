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

PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


def commands(page: Path, language: str, prompt: str) -> Iterator[str]:
    for block in blocks(page, language):
        for line in block.replace("\\\n", " ").splitlines():
            if line.startswith(prompt + "mcp-bench "):
                yield re.split(r"  #| > ", line.removeprefix(prompt))[0]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_in_a_console_block_works(page: Path, tmp_path: Path) -> None:
    """In the page's order, in one folder: later commands use what earlier ones made."""
    for line in commands(page, "console", "$ "):
        argv = [sys.executable, "-m", "mcp_bench.bridge.cli.root", *shlex.split(line)[1:]]
        done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=300)
        # dropping calls makes imperfect attempts, never invalid ones: everything shown ends with 0
        assert done.returncode == 0, (line, done.stdout, done.stderr)
        assert done.stdout or done.stderr, line


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_other_command_line_is_one_that_exists(page: Path) -> None:
    for line in commands(page, "sh", ""):
        context = click.Context(root, info_name="mcp-bench")
        name, command, rest = root.resolve_command(context, shlex.split(line)[1:])
        assert command is not None
        command.make_context(name, list(rest), parent=context)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target
