"""Servers for the conformance suite, each a process of its own."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conformance_suite import Start

SUPPORT = Path(__file__).parents[1] / "support"


@pytest.fixture
def start(tmp_path: Path, bench_home: Path) -> Iterator[Start]:
    """Start a Python program, or a module, that prints a URL; return it. All are ended with the test."""
    processes: list[subprocess.Popen[str]] = []
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "MCP_BENCH_HOME": str(bench_home)}

    def run(program: str, *args: str | Path) -> str:
        named = [str(SUPPORT / program)] if program.endswith(".py") else ["-m", program]
        command = [sys.executable, *named, *map(str, args)]
        process = subprocess.Popen(command, env=environ, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
        processes.append(process)
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert url.startswith("http://"), f"{program} did not start"
        return url

    yield run
    for process in reversed(processes):
        process.terminate()
        process.communicate(timeout=30)
