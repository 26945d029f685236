"""Type the commands of a page, and compare what they print with what the page shows."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.support.processes.forked import run_module

COMMAND = "mcp_bench.bridge.cli.root"
SECONDS = 300


def blocks(page: Path, language: str) -> list[str]:
    """Return the fenced blocks of a page in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


def lines_of(block: str, prompt: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the command lines of a block, each with the lines shown below it."""
    found: list[tuple[str, list[str]]] = []
    for line in block.replace("\\\n", " ").splitlines():
        if line.startswith(prompt):
            found.append((re.split(r"  +#| > ", line.removeprefix(prompt))[0], []))
        elif found:
            found[-1][1].append(line)
    yield from found


def commands(page: Path, language: str, prompt: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the page's mcp-bench commands, each with the lines that the page shows below it."""
    for block in blocks(page, language):
        yield from ((line, shown) for line, shown in lines_of(block, prompt) if line.startswith("mcp-bench "))


def all_lines(page: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield every command line of a page in order, from its `console` and its `sh` blocks."""
    for language, block in re.findall(
        r"^```(console|sh)\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE
    ):
        yield from lines_of(block, "$ " if language == "console" else "")


def steady(text: str) -> list[str]:
    """Return lines without what differs from run to run or between machines: ids, times, isolation, spacing."""
    text = re.sub(r"\b(run|ep)_\w+", r"\1_ID", text)
    text = re.sub(r"\b[0-9.]+ s\b", "SECONDS s", text)
    text = re.sub(r"\b[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8}\b", "MOMENT", text)
    text = re.sub(r"\b(uid|bwrap|landlock|none)\b( +[0-9]+/)?", "LEVEL", text)
    text = re.sub(r"LEVEL, [0-9]+ probes", "LEVEL, PROBES", text)
    text = re.sub(r"verified (all|LEVEL)", "VERIFIED", text)
    return [" ".join(line.split()) for line in text.splitlines()]


def type_line(
    line: str,
    shown: Sequence[str],
    program: Sequence[str] | None = None,
    *,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    code: int = 0,
) -> subprocess.CompletedProcess[str]:
    """Run a command line, and check its exit code and that it prints what is shown.

    Args:
        line: such as `mcp-bench report`.
        shown: the lines below it; `...` stands for any lines.
        program: what to start for `mcp-bench`; by default a fork of a process that has imported it.
        cwd: the working directory.
        env: the environment; by default this process's.
        code: the exit code to expect.
    """
    words, env = shlex.split(line)[1:], os.environ if env is None else env
    if program is None:
        done = run_module(COMMAND, words, env=env, cwd=cwd, timeout=SECONDS)
    else:
        argv = [*program, *words]
        done = subprocess.run(argv, cwd=cwd, env=env, capture_output=True, text=True, timeout=SECONDS)
    # dropping calls makes imperfect attempts, never invalid ones: everything shown ends with 0
    assert done.returncode == code, (line, done.stdout, done.stderr)
    assert done.stdout or done.stderr, line
    printed = steady(done.stderr + done.stdout)
    for expected in steady("\n".join(shown)):
        if expected and expected != "...":
            assert expected in printed, (line, expected, printed)
    return done
