"""The wheel in an empty environment, as a newcomer installs it: every command of the README and of the docs'
first page, in order.

Without the network but for the package index. What the pages show is compared in the same way for the
checkout, by `test_docs.py`; here everything is built, installed and typed.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcp_bench.servers.extras import TRAINER_COMMANDS
from tests.support import ROOT
from tests.support.pages.console_blocks import all_lines, type_line

pytestmark = [pytest.mark.system, pytest.mark.full]

LEFT_OUT = {
    r"git clone .*": "this checkout is what it would bring",
    r"pip install \.": "the fixture does it, from the wheel",
    r"make (demo|test)": "they install and run everything; both have tests",
    r"mcp-bench record --agent (codex|claude-code|acp|chat) .*": "needs an account, or a model",
}
"""Commands of the first pages that are not typed here, each with the reason."""
PAGES = (ROOT / "README.md", ROOT / "docs" / "index.md")
NOT_ZERO = {"mcp-bench status": 1, "mcp-bench doctor": 1}
"""No referee is running, and no agent with a model is installed: they say so."""
TRAINER = re.compile(rf"mcp-bench ({'|'.join(TRAINER_COMMANDS)})\b.*")
"""The README says that these need the trainer. Without it, they say so, too."""


@pytest.fixture(scope="module")
def environment() -> Iterator[tuple[list[str], dict[str, str]]]:
    """`mcp-bench` in an environment that has the wheel and what it depends on; and its variables."""
    folder = Path(tempfile.mkdtemp(prefix="mcp-bench-wheel-"))
    folder.chmod(0o755)  # agents of another user can read it
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    built = [*pip, "wheel", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run(built, check=True, timeout=600)
    (wheel,) = folder.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True, timeout=600)
    python = str(folder / "venv" / "bin" / "python")
    constraints = ["--constraint", str(ROOT / "constraints.txt")]
    install = [
        python,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        *constraints,
        str(wheel),
    ]
    subprocess.run(install, check=True, timeout=600)
    home = folder / "home"
    home.mkdir()
    kept = {name: value for name, value in os.environ.items() if name in ("LANG", "LC_ALL", "TZ", "TMPDIR")}
    path = f"{folder / 'venv' / 'bin'}:/usr/bin:/bin"
    yield [str(folder / "venv" / "bin" / "mcp-bench")], {**kept, "PATH": path, "HOME": str(home)}
    shutil.rmtree(folder)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_of_a_first_page_works(page: Path, environment, tmp_path: Path) -> None:
    """A newcomer types them in order, and sees what the page shows."""
    program, env = environment
    env = env | {"MCP_BENCH_HOME": str(tmp_path / "recordings")}
    typed = 0
    for line, shown in all_lines(page):
        if TRAINER.fullmatch(line):
            argv = [*program, *line.split()[1:]]
            done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300)
            assert done.returncode == 1 and "pip install ./trainer" in done.stderr, (line, done.stderr)
        elif not any(re.fullmatch(pattern, line) for pattern in LEFT_OUT):
            type_line(line, shown, program, cwd=tmp_path, env=env, code=NOT_ZERO.get(line, 0))
            typed += 1
    assert typed >= 4


def test_what_is_left_out_is_on_a_page() -> None:
    lines = [line for page in PAGES for line, _ in all_lines(page)]
    assert [pattern for pattern in LEFT_OUT if not any(re.fullmatch(pattern, line) for line in lines)] == []


def test_doctor_is_content_with_a_plain_install(environment, tmp_path: Path) -> None:
    program, env = environment
    done = type_line("mcp-bench doctor oracle noop", ["Ready: oracle, noop."], program, cwd=tmp_path, env=env)
    assert "problem" not in done.stdout and "hint     otel" not in done.stdout
    assert "info     report: matplotlib is not installed; only report --html needs it" in done.stdout
    for command in ("report --html page.html", "export --push me/mine --out rows.jsonl"):
        refused = subprocess.run(
            [*program, *command.split()], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300
        )
        assert refused.returncode == 1, refused.stderr
        assert re.search(r"pip install '/\S+\.whl\[(report|hub)\]'", refused.stderr), refused.stderr
