"""The wheel in an empty environment, as a newcomer installs it: every command of the README, in order.

Without the network but for the package index. What the README shows is compared in the same way for the
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
from tests.support.console_blocks import all_lines, type_line

pytestmark = [pytest.mark.system, pytest.mark.full]

LEFT_OUT = {
    r"git clone .*": "this checkout is what it would bring",
    r"pip install \.": "the fixture does it, from the wheel",
    r"make (demo|test)": "they install and run everything; both have tests",
    r"mcp-bench record --agent (codex|claude-code|acp|chat) .*": "needs an account, or a model",
    r"mcp-bench record --server .*": "needs an account, and a server from npm",
    r"mcp-bench proxy .*": "serves until its client leaves",
    r"mcp-bench serve .*": "serves until it is stopped",
    r"mcp-bench install claude-code": "changes the configuration of Claude Code, which is not installed",
}
"""Commands of the README that are not typed here, each with the reason."""
NOT_ZERO = {"mcp-bench status": 1}
"""No referee is running, and it says so."""
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


def test_every_command_of_the_readme_works(environment, tmp_path: Path) -> None:
    program, env = environment
    unused = set(LEFT_OUT)
    typed = 0
    for line, shown in all_lines(ROOT / "README.md"):
        if TRAINER.fullmatch(line):
            done = subprocess.run(
                [*program, *line.split()[1:]],
                cwd=tmp_path,
                env=env,
                capture_output=True,
                text=True,
                timeout=300,
            )
            assert done.returncode == 1 and "pip install ./trainer" in done.stderr, (line, done.stderr)
        elif reasons := [pattern for pattern in LEFT_OUT if re.fullmatch(pattern, line)]:
            unused -= set(reasons)
        else:
            type_line(line, shown, program, cwd=tmp_path, env=env, code=NOT_ZERO.get(line, 0))
            typed += 1
    assert typed >= 8 and not unused


def test_doctor_is_content_with_a_plain_install(environment, tmp_path: Path) -> None:
    program, env = environment
    done = type_line("mcp-bench doctor oracle noop", ["Ready: oracle, noop."], program, cwd=tmp_path, env=env)
    assert "problem" not in done.stdout and "hint     otel" not in done.stdout
    assert "info     report: matplotlib is not installed; only report --html needs it" in done.stdout
    for command in ("report --html page.html", "export --push me/mine --out rows.jsonl"):
        refused = subprocess.run(
            [*program, *command.split()], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300
        )
        assert refused.returncode == 1 and "pip install 'mcp-bench-kit[" in refused.stderr, refused.stderr
